"""``seriatim schedule``: pause and resume schedules."""

from __future__ import annotations

import click

from seriatim.box.box import MessageBox
from seriatim.cli.options.group_help import Commands
from seriatim.cli.options.which import on_box
from seriatim.cli.options.why import said, says_why
from seriatim.cli.shown.plain import in_line
from seriatim.operations import schedules

__all__ = ["schedule"]


@click.group("schedule", cls=Commands)
def schedule() -> None:
    """Pause schedules of a message box, or let them go on."""


@schedule.command("pause")
@click.argument("names", nargs=-1, required=True, metavar="NAME…")
@says_why
@on_box
def _pause(box: MessageBox, names: tuple[str, ...], *, actor: str | None, reason: str | None) -> None:
    """Pause schedules: they publish nothing until they are resumed."""
    paused = schedules.pause(box, *names, **said(actor, reason))
    click.echo("\n".join(in_line(f"paused {name}") for name in paused) or "nothing to change")


@schedule.command("resume")
@click.argument("names", nargs=-1, required=True, metavar="NAME…")
@says_why
@on_box
def _resume(box: MessageBox, names: tuple[str, ...], *, actor: str | None, reason: str | None) -> None:
    """Resume paused schedules at their next due time; nothing is published for the times between."""
    resumed = schedules.resume(box, *names, **said(actor, reason))
    click.echo("\n".join(in_line(f"resumed {name}") for name in resumed) or "nothing to change")
