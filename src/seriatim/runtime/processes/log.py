"""The log of a process of seriatim's own: lines on standard error."""

from __future__ import annotations

import logging

__all__ = ["log_to_stderr"]


def log_to_stderr(level: str) -> None:
    """Log what has at least this level, with the time and the name of the logger; for a process that is seriatim's own."""
    logging.basicConfig(level=level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s")
