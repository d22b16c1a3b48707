"""``seriatim schedule``: pause and resume schedules."""

from __future__ import annotations

import click

from seriatim.box.box import MessageBox
from seriatim.cli.options.changes import changes
from seriatim.cli.options.group_help import Commands
from seriatim.cli.options.why import Why, says_why
from seriatim.operations import schedules


@click.group("schedule", cls=Commands)
def schedule() -> None:
    """Pause schedules of a message box, or let them go on."""


@schedule.command("pause")
@says_why
@changes
def pause(box: MessageBox, *names: str, why: Why) -> list[str]:
    """Pause schedules: they publish nothing until they are resumed."""
    return [f"paused {name}" for name in schedules.pause(box, *names, **why())]


@schedule.command("resume")
@says_why
@changes
def resume(box: MessageBox, *names: str, why: Why) -> list[str]:
    """Resume paused schedules at their next due time; nothing is published for the times between."""
    return [f"resumed {name}" for name in schedules.resume(box, *names, **why())]
