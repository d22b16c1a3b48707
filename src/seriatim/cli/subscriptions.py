"""``seriatim subscriptions``: who wants which messages."""

from __future__ import annotations

import click

from seriatim.cli.which import as_json, in_columns, opened, which_box

__all__ = ["subscriptions"]


@click.command()
@which_box
@click.option("--queue", help="Only those that lead there.")
@click.option("--json", "json_", is_flag=True, help="Print a JSON list.")
def subscriptions(*, dsn: str | None, schema: str, queue: str | None, json_: bool) -> None:
    """List the subscriptions of a message box, with their states."""
    with opened(dsn, schema) as box:
        definitions = box.definitions()
    if queue is not None:
        definitions.queue(queue)
    found = [
        {"subscription": name, "queue": one.declared.to, "state": one.state, "where": one.declared.where}
        for name, one in sorted(definitions.subscriptions.items())
        if queue is None or one.declared.to == queue
    ]
    if json_:
        click.echo(as_json(found))
    elif not found:
        click.echo("there are no subscriptions")
    else:
        in_columns(tuple(found[0]), [tuple(one.values()) for one in found])
