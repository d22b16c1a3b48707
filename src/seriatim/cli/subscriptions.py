"""``seriatim subscriptions``: who wants which messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from seriatim.cli.which import as_json, in_columns, opened, which_box

if TYPE_CHECKING:
    from seriatim.box.definitions.definition import BoxSubscription

__all__ = ["subscriptions"]


@click.command()
@which_box
@click.option("--queue", help="Only subscriptions that lead to this queue.")
@click.option("--json", "json_", is_flag=True, help="Print a JSON list.")
def subscriptions(*, dsn: str | None, schema: str, queue: str | None, json_: bool) -> None:
    """List the subscriptions of a message box, with their states."""
    with opened(dsn, schema) as box:
        definitions = box.definitions()
    if queue is not None:
        definitions.queue(queue)
    found = [
        _told(name, one)
        for name, one in sorted(definitions.subscriptions.items())
        if queue is None or one.declared.to == queue
    ]
    if json_:
        click.echo(as_json(found))
    elif not found:
        click.echo("there are no subscriptions")
    else:
        titles = tuple(dict.fromkeys(title for one in found for title in one))
        in_columns(titles, [tuple(_shown(one.get(title)) for title in titles) for one in found])


def _told(name: str, one: BoxSubscription) -> dict[str, Any]:
    told = {"subscription": name, "queue": one.declared.to, "state": one.state, "where": one.declared.where}
    return told if one.role is None else told | {"role": one.role, "types": list(one.types or ())}


def _shown(value: Any) -> str:
    return ", ".join(value) if isinstance(value, list) else value or ""
