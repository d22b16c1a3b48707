"""Bulk operations, and what became of each group."""

from __future__ import annotations

from seriatim.box.views.bulk_operations import BulkGroup, BulkOperation
from seriatim.operations.tables.table import Column, Table, columns, json_only

BULK_OPERATIONS: Table[BulkOperation] = Table(
    "A bulk operation",
    Column("bulk_id", "operation", shown=lambda one: str(one.bulk_id)),
    Column("action"),
    Column("state", kind="str", meaning="`gathered` (it waits to be begun), `running`, `ended` or `cancelled`"),
    *columns("queues", "groups", "done", "refused", "changed"),
    Column("left", kind="int", meaning="how many groups have no result"),
    *json_only("at_once", "filter"),
    *columns("actor", "reason"),
    *json_only("role"),
    Column("gathered_at", "gathered"),
    *json_only("begun_at", "moved_at"),
    Column("ended_at", "ended"),
    *json_only("cancelled_by", "cancelled_because"),
    row=BulkOperation,
)
BULK_GROUPS: Table[BulkGroup] = Table(
    "A group of a bulk operation",
    *columns("queue", "group"),
    Column("result", shown=lambda one: one.result or "left"),
    Column("why"),
    Column("operation_id", "log", shown=lambda one: None if one.operation_id is None else str(one.operation_id)),
    row=BulkGroup,
)
