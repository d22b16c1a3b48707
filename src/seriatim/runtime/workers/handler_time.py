"""A call of a handler: the time that it takes, by how it ends, for monitoring; and that it is one."""

from __future__ import annotations

import time
from types import TracebackType

from seriatim.box.connection.misuse import HANDLING
from seriatim.box.measures import MEASURES, Measure
from seriatim.errors import Postpone


class HandlerTime:
    """Measures and marks one call of a handler; a generator would cost five times as much."""

    __slots__ = ("_began", "_queue", "_token")

    def __init__(self, queue: str) -> None:
        self._queue = queue

    def __enter__(self) -> None:
        self._token = HANDLING.set(True)
        self._began = time.monotonic()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        HANDLING.reset(self._token)
        outcome = "done" if kind is None else "postponed" if issubclass(kind, Postpone) else "failed"
        MEASURES.observe(Measure.PROCESS, self._queue, [time.monotonic() - self._began], outcome)
