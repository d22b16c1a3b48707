"""Dead letters, with the ways back: put back, or delete."""

from __future__ import annotations

from typing import Any

from seriatim.console.filters import OLDER_THAN, QUEUE, SINCE, UNTIL, Field
from seriatim.console.page import Answer, Asked, Listing, Page
from seriatim.operations import dead_letters
from seriatim.operations.tables.dead_letters import DEAD_LETTERS
from seriatim.operations.tables.errors import ERRORS

__all__ = ["PAGE"]

_FILTERS = ("queue", "key", "error_class", "error", "older_than", "since", "until")
_FIELDS = (
    QUEUE,
    Field("key", "Group", hint="c*"),
    Field("error_class", "Error class", hint="ValueError"),
    Field("error", "Error text"),
    OLDER_THAN,
    SINCE,
    UNTIL,
    Field("by", "Count by error", ("error",)),
)
_TEMPLATE = "dead_letters.html"


def _to_class(asked: Asked) -> dict[str, Any]:
    """The links from counts of errors to what was counted."""
    return {"error": lambda one: ("dead-letters", dict(asked.query) | {"by": "", "error_class": one.error})}


def _read(asked: Asked) -> Answer:
    given: dict[str, Any] = asked.chosen(*_FILTERS)
    where = {"where": dict(given)}
    if asked.query.get("by") == "error":
        counts = dead_letters.dead_letters_by_error(asked.box, limit=asked.limit, **given)
        return Answer(
            ERRORS.objects_of(counts), listing=Listing(ERRORS, counts, "Errors", _to_class(asked)), values=where
        )
    page = dead_letters.page(asked.box, after=asked.number("after") or 0, limit=asked.limit, **given)
    rows = page.rows
    return Answer(
        DEAD_LETTERS.objects_of(rows),
        listing=Listing(
            DEAD_LETTERS,
            rows,
            "Dead letters",
            links={
                "number": lambda one: ("messages", one.message_id),
                "message": lambda one: ("messages", one.message_id),
                "group": lambda one: None if one.group is None else ("groups", one.queue, one.group),
            },
            nothing="There are no dead letters."
            if page.following is None
            else f"None among {page.read:,} dead letters; there are more.",
            following=None if page.following is None else dict(asked.query) | {"after": str(page.following)},
        ),
        values=where,
    )


PAGE = Page(("dead-letters",), "Dead letters", _read, _TEMPLATE, section="Messages", fields=_FIELDS, takes=("after",))
