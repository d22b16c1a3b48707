"""Ports through which messages come in."""

from __future__ import annotations

from seriatim.box.views.ports import PortView
from seriatim.operations.tables.table import Column, Table, columns, json_only

PORTS: Table[PortView] = Table(
    "A partition of a port",
    *columns("port", "partition", "kind"),
    Column("is_held", "read"),
    Column("holder", "by"),
    *json_only("held_since"),
    Column("seen_at", "seen"),
    *json_only("silent_s"),
    Column("position", optional=True),
    *columns("taken", "left_out", "id_reused", "refused"),
    *json_only("last_taken_at"),
    Column("problem", optional=True),
    row=PortView,
    nothing="no message has come in through a port",
)
