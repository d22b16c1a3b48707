"""The steps of a trace."""

from __future__ import annotations

from seriatim.box.views.trace import Step
from seriatim.operations.tables.table import Column, Table

STEPS: Table[Step] = Table(
    "A step of a trace",
    Column("at"),
    Column("kind", "step"),
    Column("text", ""),
    Column("message_id", "message", after="step"),
    Column("link", after="at", optional=True),
    row=Step,
    nothing=None,
)
