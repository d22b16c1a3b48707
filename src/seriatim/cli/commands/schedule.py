"""``seriatim schedules`` and ``seriatim schedule``: list schedules; pause and resume schedules."""

from __future__ import annotations

from seriatim.box.box import MessageBox
from seriatim.cli.options.changes import changes
from seriatim.cli.options.group_help import Commands
from seriatim.cli.options.listing import list_command
from seriatim.cli.options.why import Why, says_why
from seriatim.operations import schedules as operations
from seriatim.operations.tables.schedules import SCHEDULES

schedules = list_command("schedules", operations.schedules, SCHEDULES)

schedule = Commands("schedule", help="Pause schedules of a message box, or let them go on.")


@schedule.command("pause")
@says_why
@changes
def pause(box: MessageBox, *names: str, why: Why) -> list[str]:
    """Pause schedules: they publish nothing until they are resumed."""
    return [f"paused {name}" for name in operations.pause(box, *names, **why())]


@schedule.command("resume")
@says_why
@changes
def resume(box: MessageBox, *names: str, why: Why) -> list[str]:
    """Resume paused schedules at their next due time; nothing is published for the times between."""
    return [f"resumed {name}" for name in operations.resume(box, *names, **why())]
