"""The version of a box, its size, and the next number of each location."""

from __future__ import annotations

from seriatim.box.box import MessageBox
from seriatim.box.views.box_status import BoxStatus, read_status

__all__ = ["BoxStatus", "box_status"]


def box_status(box: MessageBox) -> BoxStatus:
    """The version, the size, and the next number of each location."""
    return box.access.within(read_status, box.access.place)
