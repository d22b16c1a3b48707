"""The steps of a trace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seriatim.operations.tables.table import Column, Table, json_only

if TYPE_CHECKING:
    from seriatim.box.views.trace import Step

STEPS: Table[Step] = Table(
    "A step of a trace",
    Column("at"),
    Column("kind", "step"),
    Column("text", ""),
    Column("message_id", "message", after="step"),
    *json_only("queue", "group"),
    Column("link", after="at", optional=True),
    row="seriatim.box.views.trace:Step",
    nothing=None,
)
