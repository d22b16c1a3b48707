"""The groups that hold messages, and the numbers that they miss: the first question when messages wait."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from seriatim.kernel.groups.policy import Policy, Standard, UnitOfWork
from seriatim.kernel.groups.state import NOTHING, State
from seriatim.kernel.policies.holes import holes, taken
from seriatim.kernel.resequence import why_held
from seriatim.kernel.values.columns import Columns, Ints, empty_ints, first_per_group, sum_before, sum_per_group


@dataclass(frozen=True, slots=True)
class HeldGroups(Columns):
    """The groups that hold messages, a row each, in their order.

    * `group`: the group's row in its state.
    * `held`: how many messages it holds.
    * `first`, `last`: the first run of numbers that it misses. `NOTHING`: it misses none; `last` alone: the end of the run is
      unknown, because no message has told the size of the set.
    * `since`: when the hole, the round or the set began (microseconds); `NEVER` where no clock runs.
    * `reason`: the `Reason` why it holds them.
    """

    group: Ints
    held: Ints
    first: Ints
    last: Ints
    since: Ints
    reason: Ints


def held_groups(policy: Policy, state: State) -> HeldGroups:
    messages = state.held.weight > 0
    held = state.held.take(messages)
    starts = np.flatnonzero(first_per_group(held.group))
    group, counts = held.group[starts], np.diff(starts, append=len(held))
    # Of a group's reasons the last in their order counts: a waiting late message is a better reason than a stopped group.
    reason = np.maximum.reduceat(why_held(policy, state)[messages], starts) if len(starts) else empty_ints()
    first, last = _missing(policy, state)
    return HeldGroups(group, counts, first[group], last[group], state.groups.since[group], reason)


def missing_numbers(first: int | None, last: int | None) -> str:
    """A run of missing numbers in words; empty without a first number, open without a last one."""
    if first is None:
        return ""
    if last is None:
        return f"{first} and higher"
    return str(first) if first == last else f"{first} to {last}"


def _missing(policy: Policy, state: State) -> tuple[Ints, Ints]:
    """The first run of numbers that each group misses; `NOTHING` where there is none."""
    none = np.full(len(state), NOTHING, np.int64)
    match policy:
        case Standard():
            open_, first, last = holes(policy, state)
            return np.where(open_, first, none), np.where(open_, last, none)
        case UnitOfWork():
            return _missing_of_sets(state, policy.start)
    return none, none


def _missing_of_sets(state: State, start: int) -> tuple[Ints, Ints]:
    """The first run that a set misses: the numbers before the first one that isn't in its place."""
    held, size = taken(state, 1), state.groups.mark
    count = sum_per_group(held.group, held.span, len(state))
    expected = sum_before(held.group, held.span) + start
    gaps = np.flatnonzero(held.sequence != expected)
    gaps = gaps[first_per_group(held.group[gaps])]
    first, last = count + start, np.where(size > 0, size + start - 1, NOTHING)
    first[held.group[gaps]], last[held.group[gaps]] = expected[gaps], held.sequence[gaps] - 1
    whole = (size > 0) & (count >= size)  # a complete set of a group that is stopped
    return np.where(whole, NOTHING, first), np.where(whole, NOTHING, last)
