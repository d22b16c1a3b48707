"""Stopping a run by SIGINT and SIGTERM: the first asks, the second insists."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["PATIENCE_S", "Stop"]

#: How long a run that was asked to stop may take to finish its batch.
PATIENCE_S = 30.0


class Stop:
    """A request to stop, by a signal or by `request`."""

    def __init__(self) -> None:
        self._changed = threading.Event()
        self._requested_at: float | None = None
        self._insisted = False

    def request(self) -> None:
        """Stop when the batch in hand is done; called again: at once."""
        self._insisted = self._requested_at is not None
        if self._requested_at is None:
            self._requested_at = time.monotonic()
        self._changed.set()

    @property
    def requested(self) -> bool:
        """Whether anyone asked."""
        return self._requested_at is not None

    @property
    def at_once(self) -> bool:
        """Whether the batch in hand is to be cancelled: someone insists, or it took too long."""
        waited = time.monotonic() - self._requested_at if self._requested_at is not None else 0.0
        return self._insisted or waited > PATIENCE_S

    @property
    def insisted(self) -> bool:
        """Whether someone asked again."""
        return self._insisted

    def wait(self, seconds: float) -> None:
        """Until something is requested, at most so long; a pause also when it was."""
        if self._changed.wait(seconds):
            self._changed.clear()

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Take SIGINT and SIGTERM as requests while the block runs (in the main thread; elsewhere there are none)."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def asked(_number: int, _frame: FrameType | None) -> None:
            self.request()

        before = {number: signal.signal(number, asked) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
