"""Bulk operations: actions on many groups, newest first."""

from __future__ import annotations

from seriatim.console.lists import list_page
from seriatim.operations import bulk_operations
from seriatim.operations.tables.bulk import BULK_OPERATIONS

PAGE = list_page(
    "bulk-operations",
    "Bulk operations",
    bulk_operations.bulk_operations,
    BULK_OPERATIONS,
    about="Actions on many groups, newest first. They go on when the page or the terminal that began them is closed.",
    links={"operation": lambda one: ("bulk-operations", str(one.bulk_id))},
    nothing="There are no bulk operations. What is done to few groups is in the operator log only.",
    section="Work",
)
