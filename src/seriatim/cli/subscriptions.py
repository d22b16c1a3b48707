"""``seriatim subscriptions``: list the subscriptions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from seriatim.cli.table import Column, Table, json_option
from seriatim.cli.which import opened, which_box

if TYPE_CHECKING:
    from seriatim.box.definitions.definition import BoxSubscription

__all__ = ["SUBSCRIPTIONS", "subscriptions"]

SUBSCRIPTIONS: Table[BoxSubscription] = Table(
    "A subscription",
    Column("subscription", value=lambda one: one.declared.name, meaning="its name"),
    Column("queue", value=lambda one: one.declared.to, meaning="the queue to which it leads"),
    Column("state", meaning="`started`, `stopped` or `unenlisted`"),
    Column("where", value=lambda one: one.declared.where, meaning="its filter; null: all messages"),
    Column("role", optional=True, meaning="the role that it belongs to; the owner's subscriptions have none"),
    Column(
        "types",
        value=lambda one: None if one.role is None else list(one.types or ()),
        optional=True,
        meaning="the message types that are granted to the role now",
    ),
    row="seriatim.box.definitions.definition:BoxSubscription",
    nothing="there are no subscriptions",
)


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
