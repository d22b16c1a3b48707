"""The definitions of schedules, which nobody routes by: they are read by themselves, and the owner's alone."""

from __future__ import annotations

import json

from seriatim.box.definitions.change import Change, Kind, changed_fields
from seriatim.box.postgres.statements import Statements
from seriatim.errors import SchemaMismatch
from seriatim.pipeline.files.json_form import from_json, to_json
from seriatim.pipeline.types.schedule import Schedule

#: A change of these gives another due time.
_MOVE = frozenset({"cron", "timezone"})


def scheduled(statements: Statements) -> dict[str, Schedule | None]:
    """The schedules of a box by name; None for one that can't be read."""
    return {name: schedule_from(definition) for name, definition in statements.rows("schedules")}


def schedule_from(definition: str) -> Schedule | None:
    """The schedule of a definition as the box keeps it; None: it can't be read."""
    try:
        return from_json(Schedule, json.loads(definition))
    except (SchemaMismatch, ValueError, RecursionError):
        return None


def put(statements: Statements, new: Schedule) -> Change | None:
    """Make a schedule, or change one, in the transaction; None if it is so already."""
    there = scheduled(statements)
    old = there.get(new.name)
    fields = () if old is None else changed_fields(old, new)
    if old is not None and not fields:
        return None
    now = statements.value("clock")
    statements.do(
        "define_schedule",
        name=new.name,
        definition=json.dumps(to_json(new)),
        next_at=next(new.after(now), None),
        moves=old is None or not _MOVE.isdisjoint(fields),
    )
    return Change("changed" if new.name in there else "added", Kind.SCHEDULE, new.name, fields)
