"""The rate limit: the messages that may begin per second, so that the called system isn't flooded."""

from __future__ import annotations

import threading
import time


class RateLimit:
    """Permits for messages; threads share it."""

    def __init__(self, rate: float | None, burst: int) -> None:
        self._rate = rate
        self._burst = max(1.0, min(float(burst), rate or 0.0))
        self._lock = threading.Lock()
        self._saved = 1.0
        self._at = time.monotonic()

    def change(self, rate: float | None, burst: int) -> None:
        with self._lock:
            if self._rate is None:  # nothing was saved up meanwhile
                self._saved, self._at = 1.0, time.monotonic()
            self._rate = rate
            self._burst = max(1.0, min(float(burst), rate or 0.0))
            self._saved = min(self._saved, self._burst)

    def take(self, most: int) -> tuple[int | None, float]:
        """Take permits, at most a number (None: there is no limit); return also the seconds to wait for the first if there is none."""
        with self._lock:
            if self._rate is None:
                return None, 0.0
            now = time.monotonic()
            self._saved = min(self._burst, self._saved + (now - self._at) * self._rate)
            self._at = now
            got = min(most, int(self._saved))
            self._saved -= got
            return got, 0.0 if got else (1.0 - self._saved) / self._rate

    def give_back(self, permits: int) -> None:
        if permits > 0:
            with self._lock:
                self._saved += permits
