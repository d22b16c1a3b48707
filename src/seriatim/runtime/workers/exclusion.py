"""The other threads at work in a process: the last attempt of a message is made while no other thread works.

A process that dies takes along whatever its threads have in hand, and nobody knows whose handler killed it; so each of
these messages loses an attempt. But none fails for good by it: what dies at its last attempt died alone.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["EXCLUSION", "Exclusion"]


class Exclusion:
    """The turns at work in a process."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._at_work = 0
        self._wanting = 0
        self._is_alone = False

    @contextmanager
    def at_work(self, *, alone: bool, patience_s: float) -> Iterator[None]:
        """Around a turn's handlers.

        Args:
            alone: whether nobody else shall be at work.
            patience_s: waits so long for that, or for those who want it; then it begins all the same, because a handler
                may be stuck, or wait for another.
        """
        had = self._enter(patience_s, alone=alone)
        try:
            yield
        finally:
            with self._changed:
                self._at_work -= 1
                self._is_alone = self._is_alone and not had
                self._changed.notify_all()

    def _enter(self, patience_s: float, *, alone: bool) -> bool:
        """Wait, and be at work; whether nobody else is, or begins without having waited."""
        with self._changed:
            if alone:
                self._wanting += 1
                had = self._changed.wait_for(lambda: not self._at_work, patience_s)
                self._wanting -= 1
                self._is_alone = self._is_alone or had
            else:
                had = False
                self._changed.wait_for(lambda: not self._is_alone and not self._wanting, patience_s)
            self._at_work += 1
            return had


#: That of this process.
EXCLUSION = Exclusion()
