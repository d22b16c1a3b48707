"""A line of the log that is written when its text changes, and not again and again while it is the same."""

from __future__ import annotations

import logging
from typing import Any

from seriatim.pipeline.text.event_log import LOG


class ToldOnce:
    def __init__(self, event: str, **about: Any) -> None:
        self._event, self._about = event, about
        #: The last text, by what it is about.
        self._told: dict[str, str] = {}

    def tell(self, error: object, level: int = logging.WARNING, of: str = "") -> None:
        text = str(error)
        if text != self._told.get(of):
            LOG.log(level, self._event, stacklevel=3, **self._about, error=error)
        self._told[of] = text

    def forget(self, of: str = "") -> None:
        """Tell the next text even if it is the last one."""
        self._told.pop(of, None)
