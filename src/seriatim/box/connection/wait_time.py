"""Parse a `wait` argument: how long a call may wait."""

from __future__ import annotations

import math

from seriatim.errors import UsageError, shown
from seriatim.kernel.values.time import micros, seconds

#: A receiver's wait without an end.
FOREVER = "forever"


def patience(wait: float | str) -> float:
    if (wait_us := micros(wait)) < 0:
        raise UsageError(f"cannot wait for {shown(wait)} seconds", remedy="0 or more")
    return seconds(wait_us)


def patience_of_receiver(wait: float | str | None) -> float:
    """Convert the `wait` of a receiver to seconds: 0 for None, infinity for ``"forever"``."""
    if wait is None:
        return 0.0
    return math.inf if isinstance(wait, str) and wait.strip() == FOREVER else patience(wait)
