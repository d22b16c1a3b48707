"""Do the due work of a box that nobody receives from."""

from __future__ import annotations

from seriatim.box import tick as due
from seriatim.box.box import MessageBox
from seriatim.box.postgres.translate import translated
from seriatim.box.tick import Tick

__all__ = ["Tick", "tick"]


def tick(box: MessageBox, *, at_once: bool = False) -> Tick:
    """Do due work without receiving: route messages published through SQL, judge what has arrived, fire timers, retry
    faulted groups.

    Args:
        box: the box.
        at_once: first count from now what waits by a time of the database's clock when that was ahead.

    Raises:
        EnvironmentProblem: the box's role may not do this work.
        Unavailable: call it again.
    """
    with translated(box.access.place):
        return due.tick(box.access, at_once=at_once)
