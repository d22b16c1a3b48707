"""The times at which a faulted group is retried automatically, before it is left to an operator."""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["Recover", "recovery_at"]


@dataclass(frozen=True, slots=True)
class Recover:
    """The recovery rule of a queue: the most recoveries, the delay (microseconds), and the factor by which it grows each time."""

    limit: int
    delay: int
    factor: float


def recovery_at(recover: Recover, done: int, failed_at: int) -> int | None:
    """The time of the next recovery, microseconds; None: there is none any more.

    Args:
        recover: the queue's rule.
        done: the number of recoveries with this message so far.
        failed_at: the time of its last failure, microseconds.
    """
    if done >= recover.limit:
        return None
    # Above this exponent a power may be no float any more, and the time is too far away to matter.
    times = min(done * math.log2(recover.factor), 100.0)
    return failed_at + round(min(recover.delay * 2.0**times, float(2**61)))
