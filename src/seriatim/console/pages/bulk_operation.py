"""A bulk operation: how far it is, what was left out and why, and the buttons that begin and cancel it."""

from __future__ import annotations

from typing import Any

from seriatim.console.lists import fields_of, following, given, takes_of
from seriatim.console.page import Answer, Asked, Page, Rows
from seriatim.errors import NotFound, shown
from seriatim.kernel.groups.verbs import VERBS, Action
from seriatim.operations import bulk_operations
from seriatim.operations.tables.bulk import BULK_GROUPS, BULK_OPERATIONS

_FIELDS = fields_of(bulk_operations.bulk_groups)


def _read(asked: Asked) -> Answer:
    text = asked.named["id"]
    if not text.isdecimal() or len(text) > 18:
        raise NotFound(f"there is no bulk operation {shown(text, 60)}", remedy="see the bulk operations")
    one = bulk_operations.bulk_operation(asked.box, int(text))
    if one.state == "running" and not asked.reads_only and asked.bulk is not None:
        asked.bulk.wake()  # where the process that began it is gone, this one goes on
    words = VERBS[Action(one.action)]
    result = asked.text("result") or ("not done" if one.begun_at is not None else None)
    chosen = given(asked, bulk_operations.bulk_groups) | {"result": result}
    rows = bulk_operations.bulk_groups(asked.box, one.bulk_id, **chosen)
    links: dict[str, Any] = {"group": lambda row: None if row.queue is None else ("groups", row.queue, row.group)}
    table = BULK_GROUPS if any(row.operation_id is not None for row in rows) else BULK_GROUPS.without("log")
    listing = Rows(
        table if one.begun_at is not None else BULK_GROUPS.only("queue", "group"), rows, "Groups", links,
        nothing="There are none.", following=following(asked, bulk_operations.bulk_groups, rows),
    )  # fmt: skip
    heading = {None: "Its groups", "not done": "Not done", "left": "Left"}.get(result, str(result).capitalize())
    return Answer(
        BULK_OPERATIONS.object_of(one),
        title=f"Bulk operation {one.bulk_id}",
        listing=listing,
        values={"one": one, "words": words, "may": asked.may(words.role), "heading": heading},
    )


PAGE = Page(
    ("bulk-operations/{id}",),
    "Bulk operation",
    _read,
    "bulk_operation.html",
    fields=_FIELDS,
    takes=takes_of(bulk_operations.bulk_groups),
)
