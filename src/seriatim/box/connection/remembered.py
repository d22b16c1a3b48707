"""What a process remembers of a box, and its threads share: free room in queues, what was logged, looks for groups on trial."""

from __future__ import annotations

import threading
import time
from collections.abc import Hashable

#: The share of the counted room that a process fills, and for how long, before it counts again.
_SHARE, _AGE_S = 10, 1.0


class FreeRoom:
    """The free room in queues with `max_messages`: after a count, a tenth of it is filled without counting again."""

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


#: How many different events are logged; after that none is.
_MOST = 1_000


class ToldOnce:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._told: set[Hashable] = set()

    def is_first(self, key: Hashable) -> bool:
        """Return whether `key` is to be logged now: it wasn't before, and there weren't too many others."""
        with self._lock:
            if key in self._told or len(self._told) >= _MOST:
                return False
            self._told.add(key)
            return True


_PAUSE_S = 1.0


class TrialLooks:
    """The looks for groups on trial, which come after the others: under load a process looks once a second."""

    def __init__(self) -> None:
        self._next: dict[int, float] = {}

    def is_due(self, queue_id: int) -> bool:
        """Return whether it is time to look; if so, the next time is a second later. The first time is a second after the first call."""
        now = time.monotonic()
        due = self._next.setdefault(queue_id, now + _PAUSE_S)
        if now < due:
            return False
        self._next[queue_id] = now + _PAUSE_S
        return True
