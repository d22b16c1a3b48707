"""A handler's failure: its kind, its effect on the group, and the time of the retry.

Every exception is tried again until the attempts of its queue are used up, with a pause that grows, because most failures
pass: something was away, or locked, or not there yet. What doesn't pass is either said (`Business`, or a class that the user
names), and fails at once; or it is an error in the handler's own code, and is tried twice. A call that can't succeed whatever the
data and the time (`Misuse`), as where a handler returns text or commits, fails at once, too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from enum import StrEnum
from typing import assert_never

import numpy as np

from seriatim.errors import Business, DeadLetter, Transient, UsageError
from seriatim.kernel.arguments import refusing
from seriatim.kernel.fields import Declaration, Number, Period, Plain, Whole, takes
from seriatim.kernel.groups.state import Flag, State
from seriatim.kernel.resequence import Outcome
from seriatim.kernel.values.columns import empty_ints
from seriatim.kernel.values.outcome import no_events, no_messages
from seriatim.kernel.values.time import NEVER, micros

#: A message is handed to a handler at most so often; and a delay grows at most by that factor.
MOST_ATTEMPTS, MOST_FACTOR = 1_000, 100
#: Errors that nearly always mean a mistake in the code that raises them.
_MISTAKES = (TypeError, AttributeError, NameError, ImportError)
#: How often a handler with such a mistake is called: twice, because its data may have changed.
_BUG_ATTEMPTS = 2


class FaultKind(StrEnum):
    #: Something was away, or busy: a retry may succeed.
    TRANSIENT = "transient"
    #: A retry won't help, according to the handler or the user.
    BUSINESS = "business"
    #: An exception that nobody has declared.
    UNEXPECTED = "unexpected"
    #: A mistake in the code of the handler itself.
    BUG = "bug"
    #: The handler has ended its worker process.
    POISON = "poison"
    #: The turn took longer than it may.
    TIMEOUT = "timeout"


@refusing(UsageError)
@dataclass(frozen=True, slots=True)
class Retry(Declaration):
    """The retries of a failing message.

    Args:
        attempts: the number of calls of a handler, the first call included, after which a message has failed permanently;
            1 to 1,000.
        delay: seconds (or ``"5s"``) before the second attempt; its group waits, and no worker for it. With the defaults a failing
            message keeps its group for 15 seconds at most.
        factor: the factor by which the delay grows with each attempt; 1 to 100.
        ceiling: the longest delay, in seconds (or ``"5m"``).
        jitter: the share of a delay by which it is shorter at random, 0 to 1.
        rollbacks: for the queue of a service: the number of rollbacks in a row, with the same message in hand, after which
            the conversation group is suspended; 1 to 1,000, None (or 0): never.

    Raises:
        UsageError: a value is invalid.
    """

    attempts: int = takes(Whole(1, MOST_ATTEMPTS), 5)
    _: KW_ONLY
    delay: Plain[float, str] = takes(Period(), 1.0, key="retry_delay")
    factor: float = takes(Number(1, MOST_FACTOR), 2.0, key="retry_factor")
    ceiling: Plain[float, str] = takes(Period(), 300.0, key="retry_ceiling")
    jitter: float = takes(Number(0, 1), 0.2, key="retry_jitter")
    rollbacks: int | None = takes(Whole(0, MOST_ATTEMPTS, zero=True), 5)


@dataclass(frozen=True, slots=True)
class ErrorClasses:
    """The user's declarations of classes of exceptions, besides `Transient` and `Business`. `transient`: after these a retry may succeed.
    `business`: after these it won't.
    """

    transient: tuple[type[BaseException], ...] = ()
    business: tuple[type[BaseException], ...] = ()

    @property
    def contradictions(self) -> list[type[BaseException]]:
        return [one for one in self.transient if one in self.business]

    def said_of(self, error: BaseException) -> FaultKind | None:
        """The kind that is declared for an exception, by the class nearest to its own; None: none is declared."""
        line = type(error).__mro__
        return min(
            (
                (line.index(one) if one in line else len(line), kind)
                for kind, one in self._all()
                if isinstance(error, one)
            ),
            default=(0, None),
            key=lambda found: found[0],
        )[1]

    def _all(self) -> Iterator[tuple[FaultKind, type[BaseException]]]:
        for one in (*self.business, Business, DeadLetter):
            yield FaultKind.BUSINESS, one
        for one in (*self.transient, Transient):
            yield FaultKind.TRANSIENT, one


def kind_of(error: BaseException, classes: ErrorClasses, *, passes: bool, in_handler: bool) -> FaultKind:
    """The kind of a fault, by the exception that a handler raised. `classes`: what the user says of classes. `passes`: whether it is known
    to pass: a failure of the network, or of the database. `in_handler`: whether the code of the handler itself raised it, or the handler
    couldn't be called; not code that it called.
    """
    if (said := classes.said_of(error)) is not None:
        return said
    if passes:
        return FaultKind.TRANSIENT
    return FaultKind.BUG if in_handler and isinstance(error, _MISTAKES) else FaultKind.UNEXPECTED


def attempts_of(retry: Retry, kind: FaultKind) -> int:
    """The largest number of attempts of a message whose handler failed in this way."""
    match kind:
        case FaultKind.BUSINESS:
            return 1
        case FaultKind.BUG:
            return min(retry.attempts, _BUG_ATTEMPTS)
        case FaultKind.TRANSIENT | FaultKind.UNEXPECTED | FaultKind.POISON | FaultKind.TIMEOUT:
            return retry.attempts
        case _:
            assert_never(kind)


def retry_delay(retry: Retry, kind: FaultKind, attempt: int, wanted: int | None, chance: float) -> int | None:
    """The delay before a message is retried, in microseconds; None: it isn't retried automatically. A message that kills its worker or
    takes too long is retried at once: no other system was involved. `retry`: the queue's rule. `kind`: the kind of the failure. `attempt`:
    the number of the failed attempt, from 1. `wanted`: the delay that the handler requested, microseconds; it overrides the rule. `chance`:
    a number from 0 to 1 that makes the jitter.
    """
    if attempt >= attempts_of(retry, kind):
        return None
    if kind in (FaultKind.POISON, FaultKind.TIMEOUT):
        return 0
    if wanted is not None:
        return wanted
    # Above this exponent a power may be no float any more, and the ceiling was reached long before.
    times = min((attempt - 1) * math.log2(retry.factor), 1_000.0)
    return round(min(micros(retry.delay) * 2.0**times, micros(retry.ceiling)) * (1 - retry.jitter * chance))


def fault(state: State, now: int) -> Outcome:
    """Stop the one group of a state: a handler failed for good at the first message that waits to be handed out. Nothing leaves, no clock
    runs, arriving messages are accepted.
    """
    groups = state.groups
    flags = (groups.flags | Flag.FAULTED) & ~int(Flag.FIXED)
    none = np.full(len(groups), NEVER, np.int64)
    calm = state.with_groups(
        flags=flags, since=none, reports=empty_ints(len(groups)), clock=np.maximum(groups.clock, now)
    )
    held = state.held.with_columns(waits=state.held.waits & ~groups.has(Flag.FIXED)[state.held.group])
    return Outcome(state.having(calm.groups, held, state.skipped), no_messages(), no_events())
