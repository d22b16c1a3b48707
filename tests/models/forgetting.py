"""A model of which sessions the journal of two regions may forget, as `forget_sessions` in SQL decides (rule 6 of `kernel/regions/claims.py`)."""

from __future__ import annotations

from seriatim.kernel.regions.claims import SessionState
from seriatim.kernel.values.columns import Bools, Ints

__all__ = ["forgettable", "watermark"]


def watermark(own_queue: int, others_outbox: int) -> int:
    """From when on a region has everything: nothing older is in its queue, or can come into it.

    Args:
        own_queue: when the oldest message in its queue was published; now if it is empty.
        others_outbox: the same of the other region's outbox, as it was reported *before* the queue was looked at; `NEVER` if it wasn't.
    """
    return min(own_queue, others_outbox)


def forgettable(state: Ints, used: Ints, now: int, forget_after: int, first: int, second: int) -> Bools:
    """Which sessions the journal may forget: idle, unused for `forget_after`, and nothing as old as their last use is left in either region.

    Args:
        state: a `SessionState` for each session.
        used: when it was used last.
        now: the time.
        forget_after: microseconds.
        first: the watermark of one region; `NEVER` if it has reported none.
        second: the watermark of the other one.
    """
    old: Bools = (state == SessionState.IDLE) & (now - used >= forget_after) & (used < min(first, second))
    return old
