"""``seriatim subscription``: start, stop and unenlist subscriptions."""

from __future__ import annotations

import click

from seriatim.box.box import MessageBox
from seriatim.cli.options.group_help import Commands
from seriatim.cli.options.which import on_box
from seriatim.operations import subscriptions

__all__ = ["subscription"]


@click.group("subscription", cls=Commands)
def subscription() -> None:
    """Start, stop or unenlist subscriptions of a message box while messages come in."""


@subscription.command("start")
@click.argument("names", nargs=-1, required=True, metavar="NAME…")
@on_box
def _start(box: MessageBox, names: tuple[str, ...]) -> None:
    """Start subscriptions: they collect messages and hand them out, in order, beginning with those collected before."""
    changes = subscriptions.start(box, *names)
    click.echo("\n".join(map(str, changes)) or "nothing to change")


@subscription.command("stop")
@click.argument("names", nargs=-1, required=True, metavar="NAME…")
@on_box
def _stop(box: MessageBox, names: tuple[str, ...]) -> None:
    """Stop subscriptions: they go on collecting messages, but hand none out."""
    changes = subscriptions.stop(box, *names)
    click.echo("\n".join(map(str, changes)) or "nothing to change")


@subscription.command("unenlist")
@click.argument("names", nargs=-1, required=True, metavar="NAME…")
@on_box
def _unenlist(box: MessageBox, names: tuple[str, ...]) -> None:
    """Unenlist subscriptions: they collect no more messages, and those collected before are kept back."""
    changes = subscriptions.unenlist(box, *names)
    click.echo("\n".join(map(str, changes)) or "nothing to change")
