"""Stop a run by SIGINT and SIGTERM: the first signal lets the batch in hand end, the second doesn't."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

#: How long a run that was asked to stop may take to finish its batch, seconds.
PATIENCE_S = 30.0


class Stop:
    def __init__(self) -> None:
        self._changed = threading.Event()
        self._requested_at: float | None = None
        self._insisted = False

    def request(self) -> None:
        """Stop when the present batch is done; a second call: at once."""
        self._insisted = self._requested_at is not None
        if self._requested_at is None:
            self._requested_at = time.monotonic()
        self._changed.set()

    @property
    def requested(self) -> bool:
        return self._requested_at is not None

    @property
    def at_once(self) -> bool:
        """Whether the present batch has to be cancelled: after a second request, or because it took too long."""
        waited = time.monotonic() - self._requested_at if self._requested_at is not None else 0.0
        return self._insisted or waited > PATIENCE_S

    @property
    def insisted(self) -> bool:
        return self._insisted

    def wait(self, seconds: float) -> None:
        """Wait for a request, at most for the given time; also a pause if there was one already."""
        if self._changed.wait(seconds):
            self._changed.clear()

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Take SIGINT and SIGTERM as requests while the block runs (in the main thread; other threads get no signals)."""
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
