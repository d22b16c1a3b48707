"""A handler's failure: its effect on the group, and the time of the retry."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from seriatim.kernel.columns import empty_ints
from seriatim.kernel.outcome import no_events, no_messages
from seriatim.kernel.resequence import Outcome
from seriatim.kernel.state import Flag, State
from seriatim.kernel.time import NEVER

__all__ = ["FaultKind", "Retry", "fault", "retry_delay"]


class FaultKind(StrEnum):
    """The kind of a handler's failure."""

    #: The same again may work.
    TRANSIENT = "transient"
    #: It won't.
    BUSINESS = "business"
    #: Its worker died of it.
    POISON = "poison"
    #: The turn took longer than it may.
    TIMEOUT = "timeout"


@dataclass(frozen=True, slots=True)
class Retry:
    """The retry rule of a queue; times in microseconds.

    Args:
        attempts: the number of times that a message is handed to a handler, the first time included.
        delay: the time before the second attempt.
        factor: the factor by which the delay grows from attempt to attempt.
        ceiling: the longest delay.
        jitter: the share of a delay by which it may differ, in both directions.
    """

    attempts: int
    delay: int
    factor: float
    ceiling: int
    jitter: float


def retry_delay(retry: Retry, kind: FaultKind, attempt: int, wanted: int | None, chance: float) -> int | None:
    """The delay before a message is retried, in microseconds; None: it isn't retried automatically.

    A message that kills its worker or takes too long is retried at once: no other system was involved.

    Args:
        retry: the queue's rule.
        kind: the kind of the failure.
        attempt: the number of the failed attempt, from 1.
        wanted: the delay that the handler requested, microseconds; it overrides the rule.
        chance: a number from 0 to 1 that makes the jitter.
    """
    if kind is FaultKind.BUSINESS or attempt >= retry.attempts:
        return None
    if kind is not FaultKind.TRANSIENT:
        return 0
    if wanted is not None:
        return wanted
    # Beyond that a power may be no float any more, and the ceiling was reached long before.
    times = min((attempt - 1) * math.log2(retry.factor), 1_000.0)
    return round(min(retry.delay * 2.0**times, retry.ceiling) * (1 + retry.jitter * (2 * chance - 1)))


def fault(state: State, now: int) -> Outcome:
    """Stop the one group of a state: a handler failed for good at the first message that waits to be handed out.

    Nothing leaves, no clock runs, arriving messages are accepted.
    """
    groups = state.groups
    flags = (groups.flags | Flag.FAULTED) & ~int(Flag.FIXED)
    none = np.full(len(groups), NEVER, np.int64)
    calm = state.with_groups(
        flags=flags, since=none, reports=empty_ints(len(groups)), clock=np.maximum(groups.clock, now)
    )
    waits = np.zeros(len(state.held), np.bool_)
    return Outcome(State(calm.groups, state.held.with_columns(waits=waits), state.skipped), no_messages(), no_events())
