"""Whether all threads of a process have found nothing to do: then a worker that runs until it is idle ends.

Idle means that nothing can be handed out at this moment. A thread that finds nothing isn't done yet, because another thread's turn may
publish, or release waiting messages: so each looks once more after every turn of any other. Messages that wait for a time (a retry, a
delay), for a missing number, for an operator, or for another process, aren't waited for.
"""

from __future__ import annotations

import threading
from collections.abc import Callable


class Idleness:
    def __init__(self, workers: int = 1) -> None:
        self._missing = workers
        self._changed = threading.Condition()
        self._turns = 0
        #: After how many turns each thread has found nothing; a lower number: there was another turn since.
        self._found_nothing: dict[object, int] = {}
        self._ends: list[Callable[[], None]] = []

    def begins(self, end: Callable[[], None]) -> None:
        """A worker has all its threads. `end` is called when all are idle."""
        with self._changed:
            self._missing -= 1
            self._ends.append(end)
        self._look()

    def joins(self, thread: object) -> None:
        """Note a thread that hasn't looked yet."""
        with self._changed:
            self._found_nothing[thread] = -1

    def leaves(self, thread: object) -> None:
        """A thread is given up, or has ended: it isn't waited for."""
        with self._changed:
            self._found_nothing.pop(thread, None)
        self._look()

    def looks(self, thread: object) -> int:
        """A thread looks for something to do: until it has found nothing it isn't idle."""
        with self._changed:
            if thread in self._found_nothing:
                self._found_nothing[thread] = -1
            return self._turns

    def worked(self) -> None:
        with self._changed:
            self._turns += 1
            self._changed.notify_all()

    def found_nothing(self, thread: object, turns: int, wait_s: float) -> None:
        """Note that a thread has found nothing after a number of turns, as `looks` returned; wait for another thread's turn, for a limited
        time.
        """
        with self._changed:
            if thread in self._found_nothing:
                self._found_nothing[thread] = turns
        self._look()
        with self._changed:
            self._changed.wait_for(lambda: self._turns != turns or self._is_idle, wait_s)

    @property
    def _is_idle(self) -> bool:
        return self._missing <= 0 and all(turns == self._turns for turns in self._found_nothing.values())

    def _look(self) -> None:
        with self._changed:
            ends = list(self._ends) if self._is_idle else []
            self._changed.notify_all()
        for end in ends:
            end()
