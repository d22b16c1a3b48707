"""``seriatim connections``: list the connections to a box's database."""

from __future__ import annotations

from seriatim.cli.options.listing import list_command
from seriatim.operations import connections as operations
from seriatim.operations.tables.connections import CONNECTION

connections = list_command("connections", operations.connections, CONNECTION)
