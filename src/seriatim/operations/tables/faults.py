"""Faults of handlers."""

from __future__ import annotations

from seriatim.box.views.faults import FaultView
from seriatim.operations.tables.table import Column, Table, columns, json_only
from seriatim.operations.tables.texts import first_line

FAULTS: Table[FaultView] = Table(
    "A fault",
    Column("fault_id", "fault", shown=lambda one: str(one.fault_id)),
    *columns("queue", "group"),
    Column("message_id", "message"),
    *json_only("type", "sequence", "ordinal"),
    Column("attempt"),
    Column("kind", after="message"),
    *json_only("error_class"),
    Column("error", shown=lambda one: f"{one.error_class}: {first_line(one.error)}"),
    *json_only("traceback"),
    Column("at", after="fault"),
    *json_only("worker"),
    Column("retry_at", "again"),
    row=FaultView,
)
