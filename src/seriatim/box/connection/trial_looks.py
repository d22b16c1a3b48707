"""When a process has last looked for groups on trial, which come after the others: under load it looks once a second."""

from __future__ import annotations

import time

_PAUSE_S = 1.0


class TrialLooks:
    """The looks of one process, by queue; threads may share it."""

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
