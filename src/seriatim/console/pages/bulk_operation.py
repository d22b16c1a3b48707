"""A bulk operation: how far it is, what was left out and why, and the buttons that begin and cancel it."""

from __future__ import annotations

from typing import Any

from seriatim.console.actions import ON_GROUPS
from seriatim.console.filters import Field
from seriatim.console.page import Answer, Asked, Listing, Page
from seriatim.errors import NotFound, shown
from seriatim.operations import bulk_operations
from seriatim.operations.bulk_operations import RESULTS
from seriatim.operations.groups import Action
from seriatim.operations.tables.bulk import BULK_GROUPS, BULK_OPERATIONS

__all__ = ["PAGE"]

_FIELDS = (Field("result", "Result", RESULTS),)
_TEMPLATE = "bulk_operation.html"


def _read(asked: Asked) -> Answer:
    text = asked.named["id"]
    if not text.isdecimal() or len(text) > 18:
        raise NotFound(f"there is no bulk operation {shown(text, 60)}", remedy="see the bulk operations")
    one = bulk_operations.bulk_operation(asked.box, int(text))
    if one.state == "running" and not asked.reads_only and asked.bulk is not None:
        asked.bulk.wake()  # where the process that began it is gone, this one goes on
    words = ON_GROUPS[Action(one.action)]
    result = asked.text("result") or ("not done" if one.begun_at is not None else None)
    after = None
    if asked.number("after_queue") is not None and "after_key" in asked.query:
        after = (asked.number("after_queue") or 0, asked.query["after_key"])
    rows = bulk_operations.bulk_groups(asked.box, one.bulk_id, result=result, after=after, limit=asked.limit)
    links: dict[str, Any] = {"group": lambda row: None if row.queue is None else ("groups", row.queue, row.group)}
    following = None
    if len(rows) == asked.limit:
        following = dict(asked.query) | {"after_queue": str(rows[-1].queue_id), "after_key": rows[-1].group}
    table = BULK_GROUPS if any(row.operation_id is not None for row in rows) else BULK_GROUPS.without("log")
    listing = Listing(
        table if one.begun_at is not None else BULK_GROUPS.only("queue", "group"), rows, "Groups", links,
        nothing="There are none.", following=following,
    )  # fmt: skip
    heading = {None: "Its groups", "not done": "Not done", "left": "Left"}.get(result, str(result).capitalize())
    return Answer(
        BULK_OPERATIONS.object_of(one),
        title=f"Bulk operation {one.bulk_id}",
        listing=listing,
        values={"one": one, "words": words, "may": asked.may(words.role), "heading": heading},
    )


PAGE = Page(
    ("bulk-operations/{id}",), "Bulk operation", _read, _TEMPLATE, fields=_FIELDS, takes=("after_queue", "after_key")
)
