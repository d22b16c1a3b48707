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
    """Why a handler failed."""

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
    """How a queue tries again; times in microseconds.

    Args:
        attempts: how often a message is handed to a handler, the first time included.
        delay: before the second attempt.
        factor: by which the delay grows from attempt to attempt.
        ceiling: it doesn't grow beyond that.
        jitter: by how much of itself a delay may differ, to both sides.
    """

    attempts: int
    delay: int
    factor: float
    ceiling: int
    jitter: float


def retry_delay(retry: Retry, kind: FaultKind, attempt: int, wanted: int | None, chance: float) -> int | None:
    """How long a message waits before it is tried again, in microseconds; None: it isn't by itself.

    What kills its worker or takes too long is tried again at once: nobody else was in its way.

    Args:
        retry: the queue's rule.
        kind: why the handler failed.
        attempt: which one failed, from 1.
        wanted: what the handler asked for, microseconds; it goes before the rule.
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
    """The one group of a state stops: a handler failed for good at the first message that waits to be handed out.

    Nothing leaves, no clock runs, arriving messages are taken in.
    """
    groups = state.groups
    flags = (groups.flags | Flag.FAULTED) & ~int(Flag.FIXED)
    none = np.full(len(groups), NEVER, np.int64)
    calm = state.with_groups(
        flags=flags, since=none, reports=empty_ints(len(groups)), clock=np.maximum(groups.clock, now)
    )
    waits = np.zeros(len(state.held), np.bool_)
    return Outcome(State(calm.groups, state.held.with_columns(waits=waits), state.skipped), no_messages(), no_events())
