"""Schedules: see when each publishes and what it has published, pause them and let them go on."""

from __future__ import annotations

from seriatim.box.box import MessageBox
from seriatim.box.operators import schedules as operators
from seriatim.box.operators.operator_log import Operator
from seriatim.box.views.schedules import ScheduleView, schedules_of

__all__ = ["ScheduleView", "pause", "resume", "schedules"]


def schedules(box: MessageBox) -> list[ScheduleView]:
    """List the schedules of a message box: when each publishes next, and what it has published last.

    Only the owner of the box may do that.
    """
    return box.access.within(schedules_of)


def pause(box: MessageBox, *names: str, actor: str, reason: str) -> list[str]:
    """Pause schedules, all or none: they publish nothing until they are resumed.

    Args:
        box: the message box.
        names: the schedules.
        actor: the operator's name.
        reason: why; both are written to the operator log.

    Returns:
        the names of those that weren't paused before.

    Raises:
        UsageError: there is no such schedule, or the actor or the reason is missing.
    """
    return box.access.within(operators.pause, names, Operator(actor, reason))


def resume(box: MessageBox, *names: str, actor: str, reason: str) -> list[str]:
    """Let paused schedules go on, all or none, at their next due time; nothing is published for the times between.

    Arguments and errors are the same as for `pause`.

    Returns:
        the names of those that were paused.
    """
    return box.access.within(operators.resume, names, Operator(actor, reason))
