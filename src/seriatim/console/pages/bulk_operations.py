"""Bulk operations: actions on many groups, newest first."""

from __future__ import annotations

from seriatim.console.filters import Field
from seriatim.console.page import Answer, Asked, Listing, Page
from seriatim.operations import bulk_operations
from seriatim.operations.tables.bulk import BULK_OPERATIONS

__all__ = ["PAGE"]

_FIELDS = (Field("open", "Only those that aren't over", ("yes",)),)


def _read(asked: Asked) -> Answer:
    rows = bulk_operations.bulk_operations(
        asked.box, before=asked.number("before"), is_open=asked.text("open") is not None, limit=asked.limit
    )
    return Answer(
        BULK_OPERATIONS.objects_of(rows),
        about="Actions on many groups, newest first. They go on when the page or the terminal that began them is closed.",
        listing=Listing(
            BULK_OPERATIONS,
            rows,
            "Bulk operations",
            links={"operation": lambda one: ("bulk-operations", str(one.bulk_id))},
            nothing="There are no bulk operations. What is done to few groups is in the operator log only.",
            following=None if len(rows) < asked.limit else dict(asked.query) | {"before": str(rows[-1].bulk_id)},
        ),
    )


PAGE = Page(("bulk-operations",), "Bulk operations", _read, section="Work", fields=_FIELDS, takes=("before",))
