"""``seriatim ports``: the ports through which messages come in."""

from __future__ import annotations

from seriatim.cli.options.listing import list_command
from seriatim.operations import ports as operations
from seriatim.operations.tables.ports import PORTS

ports = list_command("ports", operations.ports, PORTS)
