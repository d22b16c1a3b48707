"""The threads of a worker: as many as it obeys, and replacements of those whose handlers are stuck."""

from __future__ import annotations

import time
from collections.abc import Callable

from seriatim.errors import SeriatimError, Unavailable
from seriatim.runtime.workers.scoreboard import Scoreboard, Slot, Work
from seriatim.runtime.workers.worker_thread import WorkerThread

#: The most stuck handlers that are replaced at one time.
SPARE_THREADS = 32
_LOOK_S = 0.1
#: How long a thread whose turn was ended may take to end itself, if no thread is left, seconds.
_PATIENCE_S = 10.0


class WorkerThreads:
    def __init__(self, queue: str, scoreboard: Scoreboard, make: Callable[[Slot], WorkerThread]) -> None:
        self._queue = queue
        self._scoreboard = scoreboard
        #: Makes a thread, which isn't started, for a slot.
        self._make = make
        self._threads: dict[WorkerThread, Slot] = {}
        #: The threads whose handlers are stuck, or haven't ended yet; they keep their slots.
        self._given_up: dict[WorkerThread, Slot] = {}
        #: The threads that have ended since the last call of `fit`.
        self._ended: list[WorkerThread] = []
        #: The time since which only given up threads are left.
        self._stuck_since: float | None = None
        self._handled = 0
        self._error: SeriatimError | None = None

    def fit(self, wanted: int) -> None:
        """Start threads, or let them end after their turns, to reach a number. Threads with stuck handlers don't count."""
        self._look()
        staying = [thread for thread in self._threads if not thread.is_leaving]
        for worker_thread in staying[wanted:]:
            worker_thread.leave()
        for _ in range(wanted - len(staying)):
            if len(self._given_up) > SPARE_THREADS or (slot := self._scoreboard.take()) is None:
                break
            thread = self._make(slot)
            self._threads[thread] = slot
            thread.start()
        for worker_thread in [
            *self._given_up,
            *self._ended,
        ]:  # not before the others are replaced: without threads all would be idle
            worker_thread.is_replaced()
        self._ended.clear()
        if not wanted or self._threads or not self._given_up:
            self._stuck_since = None
        elif self._stuck_since is None:
            self._stuck_since = time.monotonic()
        elif time.monotonic() > self._stuck_since + _PATIENCE_S:
            raise Unavailable("all handlers are stuck", where=f"queue {self._queue!r}", remedy="restart the worker")

    @property
    def count(self) -> int:
        return len(self._threads)

    @property
    def handled(self) -> int:
        return self._handled + sum(thread.handled for thread in [*self._threads, *self._given_up])

    @property
    def error(self) -> SeriatimError | None:
        return next((thread.error for thread in self._threads if thread.error is not None), self._error)

    @property
    def works(self) -> list[Work]:
        return [work for slot in list(self._threads.values()) if (work := slot.read()) is not None]

    def wait(self, until: float, insisted: Callable[[], bool]) -> None:
        """Wait until all turns have ended; for stuck handlers, until their attempts are counted."""
        while time.monotonic() < until and not insisted():
            if self._threads:
                next(iter(self._threads)).join(_LOOK_S)
            elif any(thread.is_late for thread in self._given_up):
                time.sleep(_LOOK_S)
            else:
                break
            self._look()

    def _look(self) -> None:
        """Remove ended threads, and end turns that take too long."""
        for thread, slot in list(self._given_up.items()):
            thread.look()
            if not (thread.is_alive() or thread.is_late):
                del self._given_up[thread]
                self._has_ended(thread, slot)
        for thread, slot in list(self._threads.items()):
            if thread.look():
                self._given_up[thread] = self._threads.pop(thread)
            elif not thread.is_alive():
                del self._threads[thread]
                self._has_ended(thread, slot)

    def _has_ended(self, thread: WorkerThread, slot: Slot) -> None:
        self._ended.append(thread)
        self._handled += thread.handled
        self._error = self._error or thread.error
        self._scoreboard.give_back(slot)
