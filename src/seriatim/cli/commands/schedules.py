"""``seriatim schedules``: what the box publishes by itself, and when."""

from __future__ import annotations

from seriatim.cli.options.listing import list_command
from seriatim.operations import schedules as operations
from seriatim.operations.tables.schedules import SCHEDULES

schedules = list_command("schedules", operations.schedules, SCHEDULES)
