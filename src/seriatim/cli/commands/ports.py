"""``seriatim ports``: the ports through which messages come in."""

from __future__ import annotations

from seriatim.cli.options.listing import list_command
from seriatim.cli.shown.table import Table
from seriatim.operations import ports as operations
from seriatim.operations.tables import ports as declared

__all__ = ["PORTS", "ports"]

PORTS = Table.of(declared.PORTS)
ports = list_command("ports", operations.ports, PORTS)
