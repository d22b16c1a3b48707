"""The texts that a process has logged already, so that it logs each once."""

from __future__ import annotations

import threading
from collections.abc import Hashable

#: How many different texts are logged; after that none is.
_MOST = 1_000


class ToldOnce:
    """The events that a process has logged of a box. Threads may share it."""

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
