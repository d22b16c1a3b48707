"""The groups that stand still, grouped by the reason; or all groups that a filter finds."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from seriatim.console.causes import YOUNG, causes_of, filter_of
from seriatim.console.filters import QUEUE, SINCE, UNTIL, Field, older_than
from seriatim.console.page import Answer, Asked, Listing, Page
from seriatim.operations import groups
from seriatim.operations.bulk import BULK
from seriatim.operations.groups import STOPPED, GroupState, GroupView
from seriatim.operations.tables.errors import ERRORS
from seriatim.operations.tables.groups import GROUPS

__all__ = ["PAGE"]

_FILTERS = ("queue", "key", "older_than", "error_class", "error", "since", "until")
_FIELDS = (
    QUEUE,
    Field("state", "State", ("all", *map(str, GroupState))),
    Field("key", "Key", hint="c*"),
    Field("error_class", "Error class", hint="ValueError"),
    Field("error", "Error text"),
    older_than("In this state for longer than", "5m"),
    SINCE,
    UNTIL,
    Field("all", "With groups that have waited for less than 10 minutes", ("yes",)),
)

_TEMPLATE = "groups.html"


def _read(asked: Asked) -> Answer:
    given: dict[str, Any] = asked.chosen(*_FILTERS)
    queue = given.pop("queue", None)
    named = asked.text("state")
    state = tuple(GroupState) if named == "all" else named
    if asked.query.get("by") == "error":
        counts = groups.groups_by_error(asked.box, queue, state=state or STOPPED, **given)
        to_groups: dict[str, Any] = {
            "error": lambda one: ("groups", asked.chosen(*_FILTERS, "state", "all") | filter_of(one, every=True))
        }
        listing = Listing(ERRORS, counts, "Causes", to_groups)
        return Answer(ERRORS.objects_of(counts), listing=listing, values=_nothing())
    after = _after(asked)
    rows = groups.groups(
        asked.box, queue, state=state or STOPPED, suspected=None if state else True, after=after, limit=asked.limit, **given
    )  # fmt: skip
    following = None
    if len(rows) == asked.limit:
        following = dict(asked.query) | {"after_queue": rows[-1].queue, "after_key": rows[-1].group}
    every = bool(state or asked.text("all") or given)
    now = asked.looks.now()
    shown = rows if every else [one for one in rows if not _is_young(one, now)]
    listing = Listing(
        GROUPS.without("touched", "arrived"),
        shown,
        "Groups that stand still",
        links={"group": lambda one: ("groups", one.queue, one.group), "queue": lambda one: ("queues", one.queue)},
        nothing="No group stands still.",
        following=following,
    )
    causes = []
    if after is None and (named is None or named in STOPPED):  # others may be any number
        counts = (
            groups.groups_by_error(asked.box, queue, state=named or STOPPED, **given)
            if every
            else causes_of(asked.box, queue)
        )
        causes = [(one, asked.chosen(*_FILTERS, "state") | filter_of(one, every=every)) for one in counts]
    return Answer(
        GROUPS.objects_of(shown),
        listing=listing,
        values={
            "causes": causes,
            "bulk": BULK,
            "where": asked.chosen(*_FILTERS, "state"),
            "every": every,
            "kept": asked.chosen("all"),
        },
    )


def _nothing() -> dict[str, Any]:
    return {"causes": [], "bulk": [], "where": {}, "every": True, "kept": {}}


def _after(asked: Asked) -> tuple[str, str] | None:
    if "after_queue" in asked.query and "after_key" in asked.query:
        return asked.query["after_queue"], asked.query["after_key"]
    return None


def _is_young(one: GroupView, now: datetime) -> bool:
    waits = one.state is GroupState.WAITING and not one.restart_suspected
    return waits and one.since is not None and now - one.since < YOUNG


PAGE = Page(
    ("groups",),
    "Groups that stand still",
    _read,
    _TEMPLATE,
    section="Work",
    place=0,
    fields=_FIELDS,
    takes=("by", "after_queue", "after_key"),
)
