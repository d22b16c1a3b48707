"""A turn that has all time, while others are past their limit after a moment."""

from __future__ import annotations

import struct
import threading
import time

__all__ = ["take_all_time"]

_BEGAN_AT, _BEGAN = 16, struct.Struct("<q")


def take_all_time() -> None:
    """Called by a handler that isn't to be too late, however long the machine stands still: as if its turn began in an hour."""
    slot = threading.current_thread()._slot
    _BEGAN.pack_into(slot._memory, slot._at + _BEGAN_AT, time.monotonic_ns() + 3_600 * 10**9)
