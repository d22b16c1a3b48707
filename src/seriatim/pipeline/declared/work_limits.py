"""How much and how fast workers work: for workers, activations and settings of queues alike."""

from __future__ import annotations

import math
import re
from dataclasses import KW_ONLY, dataclass
from enum import StrEnum
from typing import Any

from seriatim.errors import Argument, UsageError, shown
from seriatim.kernel.arguments import refusing
from seriatim.kernel.fields import DAY_S, Choice, Declaration, Flagged, Kind, Period, Plain, Value, Whole, Wrong, takes

MOST_WORKERS, MOST_RUN = 1_000, 100_000
#: How long a turn may take unless something else is said, seconds.
TURN_LIMIT_S = 60.0
_IDLE_GRACE_S = 1.0
#: How many messages are in a transaction unless something else is said.
_RUN = 50
#: Messages a second: fewer than these.
_TOO_FAST = 1e9
#: The least number of heartbeats in a lease.
_BEATS = 3
_RATE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(?:/\s*([smh]))?", re.ASCII)
_SECONDS = {"s": 1, "m": 60, "h": 3600}


class Mode(StrEnum):
    """The way in which a worker holds a group: by an open transaction, or by a committed claim."""

    TRANSACTIONAL = "transactional"
    LEASED = "leased"


@dataclass(frozen=True)
class _Rate(Kind):
    """Messages a second, or text such as ``30/m``."""

    def check(self, value: Any) -> Any:
        if isinstance(value, str):
            try:
                return rate_of(value)
            except UsageError as error:
                raise Wrong(error.remedy) from None
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < _TOO_FAST:
            raise Wrong("messages a second, more than 0")
        return value


RATE = _Rate()
MODE = Choice([one.value for one in Mode])
WORKERS, IN_FLIGHT, RUN_LENGTH = Whole(1, MOST_WORKERS), Whole(1, 100_000), Whole(1, MOST_RUN)


@refusing(UsageError)
@dataclass(frozen=True, slots=True)
class Pace(Declaration):
    """How much is worked on at a time, and how fast.

    Args:
        run_length: the largest number of messages of a group in one transaction, or in one claim; None: 50, and of an `Activation` as
            ``seriatim serve`` was started. In a queue without groups, unless handlers get batches, a thread takes only about 20 ms of
            work, and at least one message, so that other threads get the rest.
        rate: the largest number of messages a second, or text such as ``"30/m"``; None: no limit.
        turn_limit: seconds (or ``"60s"``) after which a transaction is ended, and another worker takes the group. Under
            leases: the limit of a handler. None: 60 s, and of an `Activation` as ``seriatim serve`` was started; under leases no limit.

    Raises:
        UsageError: a value is invalid.
    """

    run_length: int | None = takes(RUN_LENGTH, None)
    _: KW_ONLY
    rate: Plain[float | None, str] = takes(RATE, None)
    turn_limit: Plain[float | None, str] = takes(Period(0.1, DAY_S, "from 0.1 s to a day"), None)


@refusing(UsageError)
@dataclass(frozen=True, slots=True)
class Lease(Declaration):
    """How long a worker has a group that it claims by a lease.

    Args:
        time: seconds (or ``"30s"``) after which another worker takes over the group of a lost worker.
        heartbeat: seconds between renewals of a lease, at most a third of `time`; None: a fifth of it.

    Raises:
        UsageError: a value is invalid.
    """

    time: Plain[float, str] = takes(Period(0.5, DAY_S, "from 0.5 s to a day"), 30.0, key="lease")
    _: KW_ONLY
    heartbeat: Plain[float | None, str] = takes(Period.above_0(), None)

    def __post_init__(self) -> None:
        self._check_fields()
        if self.heartbeat is not None and _BEATS * self.heartbeat > self.time:
            raise self._wrong(
                ("heartbeat", "time"),
                f"a lease of {self.time:g} s is too short for a heartbeat of {self.heartbeat:g} s",
                f"a lease needs at least {_BEATS} heartbeats, so that one late heartbeat does no harm",
            )

    @property
    def heartbeat_s(self) -> float:
        """The time between two renewals of a lease, in seconds."""
        return self.time / 5 if self.heartbeat is None else self.heartbeat


@dataclass(frozen=True, slots=True)
class Limits(Declaration):
    workers: int = takes(WORKERS, 8)
    batch: bool = takes(Flagged(), False)
    pace: Plain[Pace, Pace | None] = takes(Value(Pace, "Pace(run_length=10)", plain=False), factory=Pace)
    mode: str = takes(MODE, Mode.TRANSACTIONAL.value)
    lease: Plain[Lease, float | str] = takes(Value(Lease, "'30s', or Lease('30s', heartbeat='5s')"), factory=Lease)

    def _wrong(self, argument: Argument, what: str, remedy: str) -> UsageError:
        return UsageError(what, remedy=remedy, argument=argument)

    @property
    def is_leased(self) -> bool:
        """Whether no transaction is open while handlers work."""
        return self.mode == Mode.LEASED

    @property
    def run_length(self) -> int:
        """The largest number of messages of a group in one transaction."""
        return _RUN if self.pace.run_length is None else self.pace.run_length

    @property
    def turn_limit_s(self) -> float:
        """The longest time of a turn, or of a handler in a lease; seconds, perhaps infinite."""
        if self.pace.turn_limit is None:
            return math.inf if self.is_leased else TURN_LIMIT_S
        return self.pace.turn_limit

    @property
    def idle_limit_s(self) -> float:
        """The longest time for which a transaction may idle, in seconds. That is for processes that are frozen: a worker that isn't ends
        its turns itself, before, and counts the attempt.
        """
        limit_s = TURN_LIMIT_S if self.pace.turn_limit is None else self.pace.turn_limit
        return limit_s if self.is_leased else limit_s + _IDLE_GRACE_S


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
