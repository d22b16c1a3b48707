"""Moments and periods as people read them."""

from __future__ import annotations

from datetime import datetime

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))


def local(at: datetime) -> str:
    """A moment in this machine's time zone, to the second: "2026-11-30 07:15:00+00:00"."""
    return at.astimezone().isoformat(" ", "seconds")


def period_of(seconds: float) -> str:
    """A period: "45 s", "12 min", "3 h", "5 d"."""
    for size, unit in _UNITS:
        if seconds >= 2 * size:
            return f"{seconds / size:,.0f} {unit}"
    return f"{max(seconds, 0):,.0f} s"
