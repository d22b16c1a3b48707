"""Ports through which messages come in."""

from __future__ import annotations

from seriatim.box.views.ports import PortView
from seriatim.operations.tables.table import Column, Table, columns

PORTS: Table[PortView] = Table(
    "A partition of a port",
    *columns("port", "partition", "kind"),
    Column("is_held", "read"),
    Column("holder", "by"),
    Column("seen_at", "seen"),
    Column("position", optional=True),
    *columns("taken", "left_out", "id_reused", "refused"),
    Column("problem", optional=True),
    row=PortView,
    nothing="no message has come in through a port",
)
