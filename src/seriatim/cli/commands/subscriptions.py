"""``seriatim subscriptions``: list the subscriptions."""

from __future__ import annotations

from seriatim.cli.options.listing import list_command
from seriatim.operations import subscriptions as operations
from seriatim.operations.tables.subscriptions import SUBSCRIPTIONS

subscriptions = list_command("subscriptions", operations.subscriptions, SUBSCRIPTIONS)
