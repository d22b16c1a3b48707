"""Ports through which messages come in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seriatim.operations.tables.table import Column, Table, columns, json_only

if TYPE_CHECKING:
    from seriatim.box.views.ports import PortView

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
    row="seriatim.box.views.ports:PortView",
    nothing="no message has come in through a port",
)
