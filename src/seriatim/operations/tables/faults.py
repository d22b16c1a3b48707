"""Faults of handlers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seriatim.operations.tables.table import Column, Table, json_only

if TYPE_CHECKING:
    from seriatim.operations.faults import FaultView

__all__ = ["FAULTS"]


def _first_line(text: str) -> str:
    line = text.partition("\n")[0]
    return line if len(line) <= 80 else f"{line[:79]}…"


FAULTS: Table[FaultView] = Table(
    "A fault",
    Column("fault_id", "fault", shown=lambda one: str(one.fault_id)),
    Column("queue"),
    Column("group"),
    Column("message_id", "message"),
    *json_only("type", "sequence", "ordinal"),
    Column("attempt"),
    Column("kind", after="message"),
    *json_only("error_class"),
    Column("error", shown=lambda one: f"{one.error_class}: {_first_line(one.error)}"),
    *json_only("traceback"),
    Column("at", after="fault"),
    *json_only("worker"),
    Column("retry_at", "again"),
    row="seriatim.box.views.faults:FaultView",
)
