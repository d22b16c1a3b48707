"""Parse a `wait` argument: how long a call may wait."""

from __future__ import annotations

from seriatim.errors import UsageError, shown
from seriatim.kernel.time import micros, seconds

__all__ = ["patience"]


def patience(wait: float | str) -> float:
    """Convert the argument to seconds.

    Raises:
        UsageError: it isn't a duration.
    """
    if (wait_us := micros(wait)) < 0:
        raise UsageError(f"cannot wait for {shown(wait)} seconds", remedy="0 or more")
    return seconds(wait_us)
