"""``seriatim subscription``: starting and stopping them."""

from __future__ import annotations

import click

from seriatim.cli.commands import Commands
from seriatim.cli.which import opened, which_box

__all__ = ["subscription"]


@click.group("subscription", cls=Commands)
def subscription() -> None:
    """Start and stop subscriptions of a message box, while messages come."""


@subscription.command("start")
@click.argument("names", nargs=-1, required=True, metavar="NAME…")
@which_box
def _start(names: tuple[str, ...], *, dsn: str | None, schema: str) -> None:
    """Collect, and hand out: what was collected before first, in order."""
    with opened(dsn, schema) as box:
        changes = box.start(*names)
    click.echo("\n".join(map(str, changes)) or "nothing to change")


@subscription.command("stop")
@click.argument("names", nargs=-1, required=True, metavar="NAME…")
@which_box
def _stop(names: tuple[str, ...], *, dsn: str | None, schema: str) -> None:
    """Collect, and hand nothing out."""
    with opened(dsn, schema) as box:
        changes = box.stop(*names)
    click.echo("\n".join(map(str, changes)) or "nothing to change")


@subscription.command("unenlist")
@click.argument("names", nargs=-1, required=True, metavar="NAME…")
@which_box
def _unenlist(names: tuple[str, ...], *, dsn: str | None, schema: str) -> None:
    """Collect nothing; what was collected before is kept back."""
    with opened(dsn, schema) as box:
        changes = box.unenlist(*names)
    click.echo("\n".join(map(str, changes)) or "nothing to change")
