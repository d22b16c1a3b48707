"""``seriatim subscriptions``: list the subscriptions."""

from __future__ import annotations

from seriatim.cli.options.listing import list_command
from seriatim.cli.shown.table import Table
from seriatim.operations import subscriptions as operations
from seriatim.operations.tables import subscriptions as declared

__all__ = ["SUBSCRIPTIONS", "subscriptions"]

SUBSCRIPTIONS = Table.of(declared.SUBSCRIPTIONS)
subscriptions = list_command("subscriptions", operations.subscriptions, SUBSCRIPTIONS)
