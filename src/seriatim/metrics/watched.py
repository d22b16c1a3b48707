"""The state of a process for monitoring: its measures, its turns, and its last look for work."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from seriatim.box.measures import MEASURES, Snapshot
from seriatim.runtime.workers.scoreboard import Work

#: A waiting worker looks about once a second, a refused one every five seconds: after this time it is late, seconds.
LOOKED_WITHIN_S = 15.0


@dataclass(frozen=True, slots=True)
class Watched:
    """A process that works: a supervisor, `seriatim serve`, or a worker in an application."""

    #: The queues that it has to look at. None: those that it has ever looked at.
    queues: Sequence[str] | None = None
    measured: Callable[[], Snapshot] = Snapshot
    works: Callable[[], Sequence[Work]] = tuple
    #: When it last looked for anything to do, on the monotonic clock; None: its queues' looks count.
    looked: Callable[[], float] | None = None
    beside: Callable[[], Sequence[str]] = tuple

    def snapshot(self) -> Snapshot:
        snapshot = MEASURES.snapshot()
        snapshot.add(self.measured())
        return snapshot

    def late(self) -> list[str]:
        """Return the queues without a recent look or work in hand, in words; empty if all is well."""
        now = time.monotonic()
        queues = []
        if self.looked is not None and now - self.looked() > LOOKED_WITHIN_S:
            queues.append("it hasn't looked for anything to do lately")
        queues += self.beside()
        seen = self.snapshot().looked
        busy = {work.queue for work in self.works()}
        for queue in self.queues or ():
            if queue in busy:
                continue
            if queue not in seen:
                queues.append(f"nobody has looked for work in queue {queue!r} yet")
            elif now - seen[queue] > LOOKED_WITHIN_S:
                queues.append(f"nobody has looked for work in queue {queue!r} for {now - seen[queue]:.0f} s")
        return queues
