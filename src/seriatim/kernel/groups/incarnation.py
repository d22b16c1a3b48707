"""How a group begins: new, or anew in its next incarnation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from seriatim.kernel.groups.policy import (
    BestEffort,
    BestEffortNumbers,
    FifoStays,
    Policy,
    Standard,
    StandardNumbers,
    StandardStays,
    UnitOfWork,
)
from seriatim.kernel.groups.state import NOTHING, Flag, Lives, State
from seriatim.kernel.values.columns import Ints


def new_state(policy: Policy, groups: int, first: Ints | None = None) -> State:
    """The state of new groups; `first` are their first numbers if they differ from the policy's."""
    state = _new_state(policy, groups, first)
    if isinstance(policy, StandardNumbers | BestEffortNumbers):
        return replace(state, lives=Lives.new(groups))
    if isinstance(policy, FifoStays | StandardStays) and policy.opens:
        return state.with_groups(flags=state.groups.flags | int(Flag.UNOPENED))
    return state


def _new_state(policy: Policy, groups: int, first: Ints | None) -> State:
    match policy:
        case Standard(start=int(start)):
            return State.new(groups, first=start if first is None else first)
        case Standard():
            return State.new(groups) if first is None else State.new(groups, first=first, flags=Flag.BEGUN)
        case BestEffort():
            return State.new(groups, first=NOTHING)
        case UnitOfWork(size=int(size)):
            return State.new(groups, size=size)
        case _:
            return State.new(groups)


def begun_anew(policy: Policy, state: State, rows: Ints, now: Ints) -> State:
    """The state after some groups have begun anew, from the policy's start, with nothing held and nothing skipped. Their ordinals go on,
    because released messages may still wait to be handed out; and so does their time. Where messages open or close groups, `mark` counts
    how often each has begun anew. `rows`: those that begin anew, ascending. `now`: for each of these the time.
    """
    before = state.groups.take(rows)
    fresh = new_state(policy, len(rows))
    fresh = fresh.with_groups(ordinal=before.ordinal, clock=np.maximum(before.clock, now))
    if isinstance(policy, FifoStays | StandardStays):
        fresh = fresh.with_groups(mark=before.mark + 1)
    if state.lives is not None:  # it is the same epoch, and of the one before as much is known
        lives = state.lives.take(rows)
        fresh = fresh.with_lives(life=lives.life + 1, epoch=lives.epoch, ended=lives.ended)
        fresh = replace(fresh, ended=state.select(rows).ended)
    return state.replace(rows, fresh)
