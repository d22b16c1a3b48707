"""The turns of a process's threads: the last attempt of a message is made while no other thread works.

If a process dies, all its threads lose their messages, and it isn't known which handler killed it; so each of
these messages loses an attempt. But no innocent message fails for good: the last attempt of a message is made alone.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Exclusion:
    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._at_work = 0
        self._wanting = 0
        self._is_alone = False

    @contextmanager
    def at_work(self, *, alone: bool, patience_s: float) -> Iterator[None]:
        """Run a turn's handlers inside the block."""
        had = self._enter(patience_s, alone=alone)
        try:
            yield
        finally:
            with self._changed:
                self._at_work -= 1
                self._is_alone = self._is_alone and not had
                self._changed.notify_all()

    def _enter(self, patience_s: float, *, alone: bool) -> bool:
        """Wait, and begin; return whether no other turn runs, or begins without waiting."""
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


#: The exclusion of this process.
EXCLUSION = Exclusion()
