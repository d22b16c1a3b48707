"""The times at which a faulted group is retried automatically, before it is left to an operator."""

from __future__ import annotations

import math
from dataclasses import dataclass

from seriatim.errors import UsageError
from seriatim.kernel.arguments import refusing
from seriatim.kernel.fields import Declaration, Number, Period, Plain, Whole, takes
from seriatim.kernel.operators.fault import MOST_ATTEMPTS, MOST_FACTOR
from seriatim.kernel.values.time import micros


@refusing(UsageError)
@dataclass(frozen=True, slots=True)
class Recover(Declaration):
    """The automatic retries of a faulted group.

    Args:
        limit: the number of automatic retries of a faulted group, before it waits for an operator; 0 to 1,000.
        delay: seconds (or ``"5m"``) from the fault to the first recovery.
        factor: the factor by which this delay grows with each recovery; 1 to 100.

    Raises:
        UsageError: a value is invalid.
    """

    limit: int = takes(Whole(0, MOST_ATTEMPTS), 0, key="recoveries")
    delay: Plain[float, str] = takes(Period(), 60.0, key="recover_delay")
    factor: float = takes(Number(1, MOST_FACTOR), 2.0, key="recover_factor")


def recovery_at(recover: Recover, done: int, failed_at: int) -> int | None:
    """The time of the next recovery, microseconds; None: there is none any more. `recover`: the queue's rule. `done`: the number of
    recoveries with this message so far. `failed_at`: the time of its last failure, microseconds.
    """
    if done >= recover.limit:
        return None
    # Above this exponent a power may be no float any more, and the time is too far away to matter.
    times = min(done * math.log2(recover.factor), 100.0)
    return failed_at + round(min(micros(recover.delay) * 2.0**times, float(2**61)))
