"""``seriatim queues``: count the messages of each queue."""

from __future__ import annotations

from dataclasses import asdict

import click

from seriatim.cli.which import as_json, in_columns, opened, which_box

__all__ = ["queues"]

_SET_ASIDE = ("late", "duplicate", "invalid", "rejected", "dead")


@click.command()
@which_box
@click.option("--json", "json_", is_flag=True, help="Print a JSON list.")
def queues(*, dsn: str | None, schema: str, json_: bool) -> None:
    """Count the messages in each queue of a message box, and the messages set aside.

    A message in a worker's open transaction counts as it did before the transaction.
    """
    from seriatim.operations import queues  # noqa: PLC0415 -- the driver, when it is needed

    with opened(dsn, schema) as box:
        found = queues.queues(box)
    if json_:
        click.echo(as_json([asdict(one) for one in found]))
        return
    if not found:
        click.echo("there are no queues")
        return
    rows = [
        (
            *(one.queue, one.policy, f"{'on' if one.enabled else 'off'}{', full' if one.is_full else ''}"),
            *(one.arrived, one.held, one.queued, one.in_hand),
            ", ".join(f"{getattr(one, what):,} {what}" for what in _SET_ASIDE if getattr(one, what)),
            one.oldest,
        )
        for one in found
    ]
    in_columns(("queue", "policy", "is", "arrived", "held", "queued", "in hand", "set aside", "oldest"), rows)
