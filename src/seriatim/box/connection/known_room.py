"""The free room in queues with `max_messages`, as far as a process knows it without counting again."""

from __future__ import annotations

import threading
import time

__all__ = ["FreeRoom"]

#: Of the room that was counted a process fills so much, for so long, before it counts again.
_SHARE, _AGE_S = 10, 1.0


class FreeRoom:
    """What a process knows of the room in the queues of a box. Threads may share it.

    A queue is counted, up to the number that it may have, and not for each message: while it has much room a tenth of
    that is filled without looking again. So several processes may fill it a little beyond the number.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: By queue: how many more need no look, and until when; seconds of the process's clock.
        self._free: dict[int, tuple[int, float]] = {}

    def take(self, queue_id: int, count: int) -> bool:
        """Take room for `count` messages, if it is known to be free."""
        with self._lock:
            free, until = self._free.get(queue_id, (0, 0.0))
            if count > free or time.monotonic() >= until:
                return False
            self._free[queue_id] = (free - count, until)
            return True

    def note(self, queue_id: int, room: int) -> None:
        """Note that the queue was counted and has room for `room` messages."""
        with self._lock:
            self._free[queue_id] = (room // _SHARE, time.monotonic() + _AGE_S)
