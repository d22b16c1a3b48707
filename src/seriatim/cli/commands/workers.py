"""``seriatim workers``: list the processes that work on queues."""

from __future__ import annotations

from seriatim.cli.options.listing import list_command
from seriatim.cli.shown.table import Table
from seriatim.operations import workers as operations
from seriatim.operations.tables import workers as declared

__all__ = ["WORKER", "workers"]

WORKER = Table.of(declared.WORKER)
workers = list_command("workers", operations.workers, WORKER)
