"""Faults of handlers, newest first; or counted by their error."""

from __future__ import annotations

from typing import Any

from seriatim.console.filters import QUEUE, SINCE, UNTIL, Field
from seriatim.console.page import Answer, Asked, Listing, Page
from seriatim.operations import faults
from seriatim.operations.tables.errors import ERRORS
from seriatim.operations.tables.faults import FAULTS

__all__ = ["PAGE"]

_FIELDS = (
    QUEUE,
    Field("group", "Group"),
    Field("kind", "Kind", tuple(map(str, faults.FaultKind))),
    Field("error_class", "Error class", hint="ValueError"),
    Field("error", "Error text"),
    SINCE,
    UNTIL,
    Field("by", "Count by error", ("error",)),
)


def _to_class(asked: Asked) -> dict[str, Any]:
    """The links from counts of errors to what was counted."""
    return {"error": lambda one: ("faults", dict(asked.query) | {"by": "", "error_class": one.error})}


def _read(asked: Asked) -> Answer:
    given: dict[str, Any] = asked.chosen(
        "queue", "group", "kind", "error_class", "error", "since", "until", "key", "older_than"
    )
    if asked.query.get("by") == "error":
        counts = faults.faults_by_error(asked.box, limit=asked.limit, **given)
        return Answer(ERRORS.objects_of(counts), listing=Listing(ERRORS, counts, "Errors", _to_class(asked)))
    rows = faults.faults(
        asked.box, message_id=asked.text("message"), before=asked.number("before"), limit=asked.limit, **given
    )
    return Answer(
        FAULTS.objects_of(rows),
        about="What handlers failed at, newest first.",
        listing=Listing(
            FAULTS,
            rows,
            "Faults",
            links={
                "fault": lambda one: ("faults", str(one.fault_id)),
                "message": lambda one: ("messages", one.message_id),
                "group": lambda one: None if one.group is None else ("groups", one.queue, one.group),
            },
            nothing="No handler has failed.",
            following=None if len(rows) < asked.limit else dict(asked.query) | {"before": str(rows[-1].fault_id)},
        ),
    )


PAGE = Page(
    ("faults",), "Faults", _read, section="Messages", fields=_FIELDS, takes=("key", "older_than", "message", "before")
)
