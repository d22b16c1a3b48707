"""Missing numbers in a region's box: they are reported to the journal, and a group goes on after those that are over there."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

from seriatim.box.box import MessageBox
from seriatim.box.workers.copies import WaitingCopy, behind_holes, raise_next
from seriatim.regions.journal.journal import Journal
from seriatim.regions.journal.values import WantedMessage

#: How many groups are read, asked about and raised together.
_PORTION = 500


@dataclass(slots=True)
class Holes:
    box: MessageBox
    journal: Journal
    name: str
    queue: str
    region: str
    recheck_s: float
    _after: str = ""
    _due: float = 0.0
    _at_work: threading.Lock = field(default_factory=threading.Lock)

    def look(self, *, now: bool = False) -> int:
        """Report holes to the journal, if it is time, or `now`; let groups go on whose missing numbers are over."""
        if not self._at_work.acquire(blocking=False):
            return 0
        try:
            if not now and time.monotonic() < self._due:
                return 0
            self._due = time.monotonic() + self.recheck_s
            gone_on = 0
            while True:  # until all were looked at once
                waiting = self._waiting()
                gone_on += self._raise(waiting)
                self._after = waiting[-1].group if len(waiting) == _PORTION else ""
                if not self._after:
                    return gone_on
        finally:
            self._at_work.release()

    def _waiting(self) -> list[WaitingCopy]:
        with self.box.access.transaction() as transaction:
            queue = transaction.definitions().queue(self.queue)
            return behind_holes(transaction, queue, self._after, _PORTION)

    def _raise(self, waiting: list[WaitingCopy]) -> int:
        if not waiting:
            return 0
        wanted = [
            WantedMessage(copy.group, copy.number, copy.message_id, copy.digest, copy.age, copy.over)
            for copy in waiting
        ]
        answers = self.journal.tell(self.name, self.queue, self.region, wanted)
        throughs = {
            copy.group: answer.through
            for copy, answer in zip(waiting, answers, strict=True)
            if answer.through is not None and answer.through >= copy.next_number
        }
        if not throughs:
            return 0
        with self.box.access.transaction() as transaction:
            queue = transaction.definitions().queue(self.queue)
            return raise_next(transaction, queue, throughs)
