"""The time that handlers take, by how they end: for monitoring."""

from __future__ import annotations

import time
from types import TracebackType

from seriatim.box.measures import MEASURES, Measure
from seriatim.errors import Postpone

__all__ = ["HandlerTime"]


class HandlerTime:
    """Measures one call of a handler; a generator would cost five times as much."""

    __slots__ = ("_began", "_queue")

    def __init__(self, queue: str) -> None:
        self._queue = queue

    def __enter__(self) -> None:
        self._began = time.monotonic()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        outcome = "done" if kind is None else "postponed" if issubclass(kind, Postpone) else "failed"
        MEASURES.observe(Measure.PROCESS, self._queue, [time.monotonic() - self._began], outcome)
