"""Time in the kernel: int64 microseconds; and the conversion from the forms that people write."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime

from seriatim.errors import UsageError, shown

#: Later than every moment: ``finish`` advances to it. A quarter of the int64 range is left on either side, so that adding or
#: subtracting a period or a timestamp of the year 1 can't overflow.
FOREVER = 2**62
#: No such moment: a clock that isn't running.
NEVER = -(2**62)

_UNITS = {"us": 1, "ms": 10**3, "s": 10**6, "m": 60 * 10**6, "h": 3600 * 10**6, "d": 86400 * 10**6}
_NUMBER = re.compile(r"\s*\d{1,20}(?:\.\d{1,20})?\s*", re.ASCII)
_DURATION = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(us|ms|s|m|h|d)\s*", re.ASCII)


class OutOfRange(UsageError):
    """A time is too long for a count of microseconds."""


def micros(value: float | str) -> int:
    """Microseconds of a duration or a time. `value`: seconds as a number, or text with a unit, such as ``"100s"``, ``"5m"``, ``"1.5h"``,
    ``"250ms"``, ``"7d"``. Raises `UsageError`: it isn't a number, isn't finite, or has an unknown unit. Raises `OutOfRange`: it is too
    long.
    """
    if isinstance(value, str):
        match = _DURATION.fullmatch(value)
        if match is None and _NUMBER.fullmatch(value):
            written = value.strip()
            raise UsageError(
                f"{shown(value)} has no unit",
                remedy=f"write {written}s for seconds, or {written}m, {written}h, {written}d",
            )
        if match is None:
            raise UsageError(f"{shown(value)} is not a duration", remedy='write "100s", "5m", "1.5h", "250ms" or "7d"')
        length = float(match[1]) * _UNITS[match[2]]
        if length > FOREVER:
            raise OutOfRange(f"{shown(value, 80)} is out of range", remedy="at most 50,000,000 days")
        return round(length)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or (isinstance(value, float) and not math.isfinite(value)):
        raise UsageError(f"{shown(value)} is not a time", remedy="give seconds as a finite number")
    if abs(value) > FOREVER / 1_000_000:
        raise OutOfRange(f"{shown(value, 80)} seconds is out of range", remedy="give seconds, not microseconds")
    return round(value * 1_000_000)


def seconds(value: int) -> float:
    return value / 1_000_000


def moment_of(at: int) -> datetime:
    return datetime.fromtimestamp(seconds(at), UTC)


def maybe_moment_of(at: int | None) -> datetime | None:
    """None also for `NEVER`."""
    return None if at is None or at == NEVER else moment_of(at)
