"""What narrows an operator log, of a message box or of a pipeline."""

from __future__ import annotations

from typing import TypedDict, Unpack

from seriatim.box.views.filters import LogFilter
from seriatim.errors import UsageError, shown
from seriatim.operations.period import When, time_range

__all__ = ["LogChoice", "LogFilter", "checked_limit", "log_filter"]

_MOST = 100_000


class LogChoice(TypedDict, total=False):
    """What narrows an operator log, by name; None: nothing.

    Args:
        group: only actions on groups with this key.
        actor: only actions of this actor.
        action: only this action, such as ``"skip_message"``.
        since: only actions from this moment on: a datetime, ISO text (without a zone: local time), or how long ago it was, as
            seconds or ``"2h"``.
        until: only actions before this moment, likewise.
    """

    group: str | None
    actor: str | None
    action: str | None
    since: When | None
    until: When | None


def log_filter(queue: str | None = None, **chosen: Unpack[LogChoice]) -> LogFilter:
    """A filter for an operator log: of a queue or a destination, narrowed further.

    Raises:
        UsageError: the range of time is invalid.
    """
    times = time_range(chosen.get("since"), chosen.get("until"))
    return LogFilter(queue, chosen.get("group"), chosen.get("actor"), chosen.get("action"), times)


def checked_limit(limit: int) -> int:
    """The largest number of rows.

    Raises:
        UsageError: it is invalid.
    """
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= _MOST:
        raise UsageError(f"cannot list {shown(limit)} actions", remedy=f"an integer from 1 to {_MOST:,}")
    return limit
