"""Periods and moments as people write and read them: ``"2h"``, an ISO time, "3 h"."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from seriatim.box.views.filters import Narrowed, TimeRange
from seriatim.errors import UsageError, shown
from seriatim.kernel.values.time import OutOfRange, micros
from seriatim.pipeline.text.storable import checked_text

__all__ = ["When", "ends_of", "moments", "narrowed", "period_of", "time_range"]

#: A moment, or how long ago it was.
When = float | str | datetime

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))


def time_range(since: When | None = None, until: When | None = None) -> TimeRange:
    """Make a range of time.

    Args:
        since: its beginning: a moment, as a datetime or ISO text (without a zone: local time), or how long ago it was, in
            seconds or as ``"2h"``; None: no limit.
        until: its end, likewise.

    Raises:
        UsageError: it is neither a moment nor a period.
    """
    return TimeRange(_moment("since", since), _moment("until", until))


def moments(since: When | None = None, until: When | None = None) -> tuple[datetime | None, datetime | None]:
    """The ends of a range of time as moments, by this machine's clock; see `time_range`."""
    return ends_of(time_range(since, until))


def ends_of(times: TimeRange) -> tuple[datetime | None, datetime | None]:
    """The ends of a range of time as moments, by this machine's clock."""
    now = datetime.now().astimezone()
    begin, end = (now - one if isinstance(one, timedelta) else one for one in (times.since, times.until))
    return begin, end


def narrowed(
    since: When | None = None, until: When | None = None, properties: Mapping[str, object] | None = None
) -> Narrowed:
    """What narrows a list further; see `time_range`. `properties`: values by the names of properties.

    Raises:
        UsageError: an end of the range is neither a moment nor a period, or a name or value can't be stored.
    """
    found = {}
    for name, value in (properties or {}).items():
        text = (
            value.isoformat()
            if isinstance(value, datetime)
            else str(value).lower()
            if isinstance(value, bool)
            else str(value)
        )
        found[checked_text(name, "the name of a property")] = checked_text(text, f"the property {name!r}")
    return Narrowed(time_range(since, until), found)


def _moment(what: str, value: When | None) -> datetime | timedelta | None:
    if value is None:
        return None
    if isinstance(value, datetime):
        return value.astimezone()
    if isinstance(value, str):
        try:
            return datetime.fromisoformat(value.strip()).astimezone()
        except (ValueError, OverflowError, OSError):
            pass
    try:
        period = micros(value)
    except OutOfRange as error:
        raise UsageError(f"{what}: {error.what}", remedy=error.remedy) from error
    except UsageError as error:
        raise UsageError(
            f"{what} can't be {shown(value)}",
            remedy='write a time such as "2026-03-01 14:30", or how long ago: "2h", "7d"',
        ) from error
    if period < 0:
        raise UsageError(
            f"{what} can't be {shown(value)}", remedy="a period counts back from now: write it without a sign"
        )
    return timedelta(microseconds=period)


def period_of(seconds: float) -> str:
    """A period for people: "45 s", "12 min", "3 h", "5 d"."""
    for size, unit in _UNITS:
        if seconds >= 2 * size:
            return f"{seconds / size:,.0f} {unit}"
    return f"{max(seconds, 0):,.0f} s"
