"""``seriatim subscriptions``: list the subscriptions."""

from __future__ import annotations

import click

from seriatim.cli.options.which import opened, which_box
from seriatim.cli.shown.table import Table, json_option
from seriatim.operations.tables import subscriptions as declared

__all__ = ["SUBSCRIPTIONS", "subscriptions"]

SUBSCRIPTIONS = Table.of(declared.SUBSCRIPTIONS)


@click.command()
@which_box
@click.option("--queue", help="Only subscriptions that lead to this queue.")
@json_option("Print a JSON list.", SUBSCRIPTIONS)
def subscriptions(*, dsn: str | None, schema: str, queue: str | None, json_: bool) -> None:
    """List the subscriptions of a message box, with their states."""
    with opened(dsn, schema) as box:
        definitions = box.definitions()
    if queue is not None:
        definitions.queue(queue)
    found = [one for _, one in sorted(definitions.subscriptions.items()) if queue is None or one.declared.to == queue]
    SUBSCRIPTIONS.print(found, json_=json_)
