"""``seriatim connections``: list the connections to a box's database."""

from __future__ import annotations

from seriatim.cli.options.listing import list_command
from seriatim.cli.shown.table import Table
from seriatim.operations import connections as operations
from seriatim.operations.tables import connections as declared

__all__ = ["CONNECTION", "connections"]

CONNECTION = Table.of(declared.CONNECTION)
connections = list_command("connections", operations.connections, CONNECTION)
