"""The regions that a box belongs to."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from seriatim.box.box import MessageBox


@dataclass(frozen=True, slots=True)
class RegionHere:
    """The box as one of two regions.

    Args:
        name: the name of the two regions.
        region: which of them the box is: ``a`` or ``b``.
        incarnation: its incarnation, by which the journal knows a restored box.
        defined_at: when it became that.
        queues: the names of its queues that belong to both.
    """

    name: str
    region: str
    incarnation: int
    defined_at: datetime
    queues: list[str]


def regions(box: MessageBox) -> list[RegionHere]:
    """List the regions that a box belongs to, with the queues that belong to both.

    How far both are, and what sessions wait for: `seriatim regions status FILE`.
    """
    return box.access.within(lambda transaction: transaction.rows("box_regions", RegionHere))
