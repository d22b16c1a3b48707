"""The log of strangers' actions: the same line only once in a while, because they could fill it."""

from __future__ import annotations

import logging
import threading
import time

from seriatim.pipeline.text.event_log import LOG

#: The same line is logged once in this many seconds, and at most this many lines in that time.
_TOLD_S, _MOST_TOLD = 60.0, 100


class _Seldom(logging.Filter):
    """Lets a line pass that hasn't passed lately."""

    def __init__(self) -> None:
        super().__init__()
        self._told: dict[str, float] = {}
        self._lock = threading.Lock()

    def filter(self, record: logging.LogRecord) -> bool:
        now, text = time.monotonic(), record.getMessage()
        with self._lock:
            self._told = {line: at for line, at in self._told.items() if now - at < _TOLD_S}
            if text in self._told or len(self._told) >= _MOST_TOLD:
                return False
            self._told[text] = now
        return True


LOGGER = logging.getLogger("seriatim.listening")
LOGGER.addFilter(_Seldom())


def tell(where: str, text: str, level: int = logging.WARNING) -> None:
    LOG.log(level, "connection_refused", error=text, _where=where)
