"""A turn that takes too long, and how far it has been ended: after a failure the next look continues."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Self

from seriatim.runtime.workers.scoreboard import Slot, Work


@dataclass(slots=True)
class LateTurn:
    """A turn that was claimed because it takes too long."""

    #: Its thread's note of the messages in hand.
    slot: Slot
    #: The messages in hand when it was claimed.
    work: Work
    #: Of the lease that keeps its group from others until the attempt is counted; None: there is none.
    token: int | None = None
    is_cut_off: bool = False
    #: The last obstacle to ending it; it is logged once.
    told: str = ""
    _claimed_at: float = field(default_factory=time.monotonic)

    @classmethod
    def claim(cls, slot: Slot, work: Work) -> Self | None:
        """Claim a turn; None: it has just ended, or another thread has claimed it."""
        return cls(slot, work) if slot.claim(work.turn) else None

    @property
    def goes_on(self) -> bool:
        """Whether it is still at work; if not, its connection may be another turn's by now."""
        return self.slot.goes_on(self.work.turn)

    @property
    def since(self) -> float:
        return self.work.since + time.monotonic() - self._claimed_at
