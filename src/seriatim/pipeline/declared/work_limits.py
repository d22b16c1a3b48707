"""Which numbers of workers, which rates and which leases there may be; for workers, activations and settings of queues alike."""

from __future__ import annotations

import re
from enum import StrEnum

from seriatim.errors import UsageError, shown
from seriatim.kernel.values.time import micros, seconds

__all__ = [
    "MOST_IN_FLIGHT",
    "MOST_RUN",
    "MOST_WORKERS",
    "TURN_LIMIT_S",
    "Mode",
    "check_lease",
    "check_mode",
    "check_rate",
    "check_turn_limit",
    "check_whole",
    "rate_of",
    "rate_text",
]

MOST_WORKERS, MOST_RUN, MOST_IN_FLIGHT = 1_000, 100_000, 100_000
#: How long a turn may take unless something else is said, seconds.
TURN_LIMIT_S = 60.0
#: Messages a second: fewer than these.
_TOO_FAST = 1e9
_SHORTEST_TURN_S, _SHORTEST_LEASE_S, _LONGEST_S = 0.1, 0.5, 86_400
#: The least number of heartbeats in a lease.
_BEATS = 3
_RATE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(?:/\s*([smh]))?", re.ASCII)
_SECONDS = {"s": 1, "m": 60, "h": 3600}


class Mode(StrEnum):
    """The way in which a worker holds a group: by an open transaction, or by a committed claim."""

    TRANSACTIONAL = "transactional"
    LEASED = "leased"


def check_whole(what: str, value: object, most: int) -> None:
    """Raises `UsageError` unless the value is a whole number from 1 to `most`."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise UsageError(f"{what} can't be {shown(value)}", remedy=f"a whole number from 1 to {most:,}", argument=what)


def check_rate(rate: object) -> None:
    """Raises `UsageError` unless it is a number of messages a second, or None."""
    if rate is not None and (isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 < rate < _TOO_FAST):
        raise UsageError(
            f"rate can't be {shown(rate)}", remedy="messages a second, more than 0, or None", argument="rate"
        )


def check_turn_limit(turn_limit: float | str | None) -> None:
    """Raises `UsageError` unless it is a time that a turn may take, or None."""
    if turn_limit is not None and not _SHORTEST_TURN_S <= _seconds("turn_limit", turn_limit) <= _LONGEST_S:
        raise UsageError(
            f"turn_limit can't be {shown(turn_limit)}",
            remedy=f"from {_SHORTEST_TURN_S} s to a day",
            argument="turn_limit",
        )


def check_mode(mode: object) -> None:
    """Raises `UsageError` unless it is one of the modes."""
    if mode not in list(Mode):
        raise UsageError(
            f"mode can't be {shown(mode)}", remedy=" or ".join(repr(one.value) for one in Mode), argument="mode"
        )


def check_lease(lease: float | str, heartbeat: float | str | None) -> None:
    """Raises `UsageError` unless it is the time of a lease, and there are enough heartbeats in it."""
    lease_s = _seconds("lease", lease)
    if not _SHORTEST_LEASE_S <= lease_s <= _LONGEST_S:
        raise UsageError(
            f"lease can't be {shown(lease)}", remedy=f"from {_SHORTEST_LEASE_S} s to a day", argument="lease"
        )
    if heartbeat is None:
        return
    heartbeat_s = _seconds("heartbeat", heartbeat)
    if not 0 < _BEATS * heartbeat_s <= lease_s:
        raise UsageError(
            f"a lease of {lease_s:g} s is too short for a heartbeat of {heartbeat_s:g} s",
            remedy=f"a lease needs at least {_BEATS} heartbeats, so that one late heartbeat does no harm",
            argument=("heartbeat", "lease"),
        )


def _seconds(what: str, value: float | str) -> float:
    """The seconds of a period; `what`: the parameter."""
    try:
        return seconds(micros(value))
    except UsageError as error:
        raise UsageError(f"{what}: {error.what}", remedy=error.remedy, argument=what) from error


def rate_of(text: str) -> float:
    """A rate from text: ``100`` and ``100/s`` are messages a second, ``30/m`` a minute, ``500/h`` an hour."""
    found = _RATE.fullmatch(text.strip())
    rate = float(found[1]) / _SECONDS[found[2] or "s"] if found else None
    if rate is None or not 0 < rate < _TOO_FAST:
        raise UsageError(
            f"rate can't be {shown(text)}", remedy="messages a second, such as 100/s, or 30/m or 500/h", argument="rate"
        )
    return rate


def rate_text(rate: float | None) -> str:
    """A rate for people; None: there is no limit."""
    if rate is None:
        return "no limit"
    return next((f"{rate * per:g}/{one}" for one, per in _SECONDS.items() if rate * per >= 1), f"{rate * 3600:g}/h")
