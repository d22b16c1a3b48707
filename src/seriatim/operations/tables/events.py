"""Events of groups."""

from __future__ import annotations

from typing import Any

from seriatim.box.views.events import EventView, KindCount
from seriatim.operations.tables.table import Column, Table, columns, json_only, text_only


def happened(*more: str) -> tuple[Column[Any], ...]:
    """The columns of an event: when, to which group, what, and by whom; `more`: further fields in JSON."""
    return (
        *columns("at", "queue", "group"),
        *json_only("incarnation"),
        Column("kind", "event", shown=lambda one: one.kind.replace("_", " ")),
        *json_only("first", "last"),
        text_only("numbers", lambda one: one.numbers, "from `first` to `last`"),
        Column("count", shown=lambda one: one.count if one.count > 1 else None, optional=True),
        *json_only(*more, "operation_id", "action", "actor"),
        Column("reason", "by", shown=lambda one: one.by, meaning="the actor's reason"),
    )


EVENTS: Table[EventView] = Table("An event", *happened("recorded_at"), row=EventView)
KIND_COUNTS: Table[KindCount] = Table(
    "A count of events",
    Column("kind", "event"),
    Column("events", "count"),
    *columns("groups", "first", "last"),
    row=KindCount,
)
