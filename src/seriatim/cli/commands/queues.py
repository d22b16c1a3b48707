"""``seriatim queues``: count the messages of each queue, its stopped groups, and those that wait."""

from __future__ import annotations

from seriatim.cli.options.listing import list_command
from seriatim.operations import queues as operations
from seriatim.operations.tables.queues import COUNTS

queues = list_command("queues", operations.queues, COUNTS)
