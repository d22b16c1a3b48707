"""The free room in queues with `max_messages`, as far as a process knows it without counting again."""

from __future__ import annotations

import threading
import time

#: The share of the counted room that a process fills, and for how long, before it counts again.
_SHARE, _AGE_S = 10, 1.0


class FreeRoom:
    """The free room in the queues of a box, as a process knows it. Threads may share it. A process doesn't count a queue for each message:
    after a count it fills a tenth of the free room without counting again. So several processes may together exceed the limit a little.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: By queue: how many more need no look, and until when; seconds of the process's clock.
        self._free: dict[int, tuple[int, float]] = {}

    def take(self, queue_id: int, count: int) -> bool:
        with self._lock:
            free, until = self._free.get(queue_id, (0, 0.0))
            if count > free or time.monotonic() >= until:
                return False
            self._free[queue_id] = (free - count, until)
            return True

    def note(self, queue_id: int, room: int) -> None:
        with self._lock:
            self._free[queue_id] = (room // _SHARE, time.monotonic() + _AGE_S)
