"""When a faulted group is retried by itself, before it is left to an operator."""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["Recover", "recovery_at"]


@dataclass(frozen=True, slots=True)
class Recover:
    """How a queue recovers: at most so often, after so long (microseconds), which grows by a factor each time."""

    limit: int
    delay: int
    factor: float


def recovery_at(recover: Recover, done: int, failed_at: int) -> int | None:
    """When the next recovery is due, microseconds; None: there is none any more.

    Args:
        recover: the queue's rule.
        done: how many recoveries there were with this message.
        failed_at: when it failed last, microseconds.
    """
    if done >= recover.limit:
        return None
    # Beyond that a power may be no float any more, and nobody waits for so long.
    times = min(done * math.log2(recover.factor), 100.0)
    return failed_at + round(min(recover.delay * 2.0**times, float(2**61)))
