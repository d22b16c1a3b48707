"""A moment, as a value of an option: a date, a time, or how long ago."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import click

from seriatim.errors import UsageError
from seriatim.kernel.values.time import micros

__all__ = ["MOMENT"]


class _Moment(click.ParamType[datetime]):
    """Converts to a `datetime` with a zone; what has none is in the zone of this machine."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """The moment."""
        if isinstance(value, datetime):
            return value
        try:
            return datetime.fromisoformat(value).astimezone()
        except (ValueError, OverflowError):
            pass
        try:
            return datetime.now(UTC) - timedelta(microseconds=micros(value))
        except (UsageError, OverflowError):
            where = "" if param is None else param.opts[0]
            remedy = 'write a time such as "2026-03-01 14:30", or how long ago: "2h", "7d"'
            raise UsageError(f"{value!r} is not a time", where=where, remedy=remedy) from None


#: For ``type=`` of an option.
MOMENT = _Moment()
