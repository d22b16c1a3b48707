"""The groups that stand still, grouped by the reason; or all groups that a filter finds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from seriatim.console.causes import filter_of
from seriatim.console.filters import Field
from seriatim.console.lists import TO_GROUP, fields_of, following, given, takes_of
from seriatim.console.page import Answer, Asked, Page, Rows
from seriatim.operations import groups
from seriatim.operations.bulk import BULK
from seriatim.operations.groups import STOPPED, GroupState
from seriatim.operations.tables.errors import ERRORS
from seriatim.operations.tables.groups import GROUPS

_FILTERS = [
    replace(one, choices=("all", *one.choices)) if one.name == "state" else one for one in fields_of(groups.groups)
]
_FIELDS = (*_FILTERS, Field("all", "With groups that have just begun to wait", ("yes",)))


def _read(asked: Asked) -> Answer:
    arguments, named = given(asked, groups.groups), asked.text("state")
    chosen = {name: one for name, one in arguments.items() if name not in ("state", "after", "limit", "standing")}
    state = tuple(GroupState) if named == "all" else named or STOPPED
    where = asked.chosen(*(one.name for one in _FILTERS))
    every = bool(named or asked.text("all") or chosen.keys() - {"queue"})
    standing = not every or "standing" in arguments
    if asked.query.get("by") == "error":
        counts = groups.groups_by_error(asked.box, state=state, **chosen, standing="standing" in arguments)
        to_groups: dict[str, Any] = {
            "error": lambda one: ("groups", where | asked.chosen("all") | filter_of(one, every=True))
        }
        nothing = {"causes": [], "bulk": [], "where": {}, "every": True, "kept": {}}
        return Answer(ERRORS.objects_of(counts), listing=Rows(ERRORS, counts, "Causes", to_groups), values=nothing)
    rows = groups.groups(
        asked.box, **arguments | {"standing": standing, "state": state, "suspected": None if named else True}
    )
    listing = Rows(
        GROUPS.without("touched", "arrived"),
        rows,
        "Groups that stand still",
        links={**TO_GROUP, "queue": lambda one: ("queues", one.queue)},
        nothing="No group stands still.",
        following=following(asked, groups.groups, rows),
    )
    causes = []
    if "after" not in arguments and (named is None or named in STOPPED):  # others may be any number
        counts = groups.groups_by_error(asked.box, state=state, standing=standing, **chosen)
        causes = [(one, where | filter_of(one, every=every)) for one in counts]
    return Answer(
        GROUPS.objects_of(rows),
        listing=listing,
        values={"causes": causes, "bulk": BULK, "where": where, "every": every, "kept": asked.chosen("all")},
    )


PAGE = Page(
    ("groups",),
    "Groups that stand still",
    _read,
    "groups.html",
    section="Work",
    place=0,
    fields=_FIELDS,
    takes=("by", *takes_of(groups.groups)),
)
