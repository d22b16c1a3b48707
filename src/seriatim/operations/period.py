"""Periods as people read them: "3 h"."""

from __future__ import annotations

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))


def period_of(seconds: float) -> str:
    """A period for people: "45 s", "12 min", "3 h", "5 d"."""
    for size, unit in _UNITS:
        if seconds >= 2 * size:
            return f"{seconds / size:,.0f} {unit}"
    return f"{max(seconds, 0):,.0f} s"
