"""Values by which several lists are filtered, and counts of errors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

__all__ = ["ErrorCount", "LogFilter", "Narrowed", "TimeRange"]


@dataclass(frozen=True, slots=True)
class TimeRange:
    """A range of time, open at either side."""

    #: Its beginning, which belongs to it; a period counts back from now, by the database's clock; None: no limit.
    since: datetime | timedelta | None = None
    until: datetime | timedelta | None = None


@dataclass(frozen=True, slots=True)
class Narrowed:
    """Further filters of a list: a range of time, and properties that a message must have."""

    times: TimeRange = field(default_factory=TimeRange)
    #: Values of properties by their names, as text; a number fits however it is written.
    properties: Mapping[str, str] = field(default_factory=dict)

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of a statement: a moment or a period before now for each end, and names with values."""
        since, until = self.times.since, self.times.until
        return {
            "since": since if isinstance(since, datetime) else None,
            "since_ago": since if isinstance(since, timedelta) else None,
            "until": until if isinstance(until, datetime) else None,
            "until_ago": until if isinstance(until, timedelta) else None,
            "names": list(self.properties) or None,
            "of_values": list(self.properties.values()) or None,
        }


@dataclass(frozen=True, slots=True)
class LogFilter:
    """A filter for the operator log."""

    #: Only actions on this queue, or on its groups.
    queue: str | None = None
    group: str | None = None
    actor: str | None = None
    action: str | None = None
    times: TimeRange = field(default_factory=TimeRange)

    def parameters(self) -> dict[str, Any]:
        """The parameters of a statement."""
        values = {"queue": self.queue, "group_key": self.group, "actor": self.actor, "action": self.action}
        return values | Narrowed(self.times).parameters()


@dataclass(frozen=True, slots=True)
class ErrorCount:
    """How often an error is in a list.

    Args:
        error: the class of the error; for what no handler failed at, the reason.
        count: how often.
        example: the newest one's text; None if there is none.
        last: the time of the newest one; None if it isn't known.
    """

    error: str
    count: int
    example: str | None
    last: datetime | None
