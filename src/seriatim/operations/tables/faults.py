"""Faults of handlers."""

from __future__ import annotations

from seriatim.box.views.faults import FaultView
from seriatim.operations.tables.table import Column, Table, columns
from seriatim.operations.tables.texts import first_line

FAULTS: Table[FaultView] = Table(
    "A fault",
    Column("fault_id", "fault", shown=lambda one: str(one.fault_id)),
    *columns("queue", "group"),
    Column("message_id", "message"),
    Column("attempt"),
    Column("kind", after="message"),
    Column("error", shown=lambda one: f"{one.error_class}: {first_line(one.error)}"),
    Column("at", after="fault"),
    Column("retry_at", "again"),
    row=FaultView,
)
