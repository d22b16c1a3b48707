"""The kernel's interface: engines call it with messages and with the time. Pure: the state goes in and comes out.

**Theory of operation.** The rules are stated for one message at a time; here a batch is processed at once, by
cutting each group's messages into *quiet* stretches: prefixes between which no timer can fire and no capacity can
overflow. Within a stretch every rule is an operation on arrays; almost always one stretch is the whole batch.
The groups that need more stretches are cut out of the state and go round again, so they don't slow down the others.

    offer     takes messages; fires no timer
    advance   fires all due timers
    call      a micro-batch or a receive: an offer followed by an advance, judged as one
    replay    event time: each message at its own time, after the timers that are due before it
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any, TypeGuard

import numpy as np

from seriatim.kernel.groups.arrivals import Arrivals
from seriatim.kernel.groups.course import Course, among
from seriatim.kernel.groups.incarnation import new_state
from seriatim.kernel.groups.policy import (
    BestEffort,
    BestEffortNumbers,
    Fifo,
    FifoMerged,
    FifoStays,
    Policy,
    Standard,
    StandardNumbers,
    StandardStays,
    UnitOfWork,
    Unordered,
)
from seriatim.kernel.groups.state import State
from seriatim.kernel.policies import best_effort, fifo, holes, numbers, standard, stays, turning, unit_of_work
from seriatim.kernel.policies.closing import close_emptied
from seriatim.kernel.policies.late import may_suspend, suspensions
from seriatim.kernel.values.columns import Ints, by_group, first_per_group, last_per_group, running_latest
from seriatim.kernel.values.outcome import Decided, EventKind, Events, Reason, no_events, no_messages
from seriatim.kernel.values.time import FOREVER, NEVER

__all__ = ["Outcome", "advance", "call", "due", "go_on", "new_state", "offer", "replay", "settle", "why_held"]

_RULES: dict[type[Any], ModuleType] = {
    Unordered: fifo,
    Fifo: fifo,
    Standard: standard,
    BestEffort: best_effort,
    UnitOfWork: unit_of_work,
    FifoMerged: fifo,
    FifoStays: stays,
    StandardStays: stays,
    StandardNumbers: numbers,
    BestEffortNumbers: turning,
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a call: the new state, the decided messages, the events of groups. The released rows of a group in `decided` stand in
    the order in which they leave.
    """

    state: State
    decided: Decided
    events: Events

    @classmethod
    def unchanged(cls, state: State) -> Outcome:
        return cls(state, no_messages(), no_events())

    def then(self, later: Outcome) -> Outcome:
        """Both results, of which `later` is about the state after this one."""
        decided, events = Decided.concat([self.decided, later.decided]), Events.concat([self.events, later.events])
        return Outcome(later.state, decided, events)

    def among(self, state: State, rows: Ints) -> Outcome:
        """The result for all groups of a state, of which those of `rows` were judged by themselves."""
        return Outcome(*among(state, rows, self.state, self.decided, self.events))


def due(policy: Policy, state: State) -> Ints:
    """The time of each group's next timer, microseconds; `FOREVER` if none runs."""
    moments: Ints = _RULES[type(policy)].due(policy, state)
    return moments


def offer(policy: Policy, state: State, arrivals: Arrivals) -> Outcome:
    """Take messages, and fire no timer. Without a window this is one round of the groups that it touches."""
    after, decided, events = _pass(policy, state, arrivals, clocked=False)
    if _rounds_are_calls(policy):
        ends = last_per_group(arrivals.group)
        touched = arrivals.group[ends]
        part, out = best_effort.end_round(policy, after.select(touched), arrivals.ref[ends])
        after, closed = close_emptied(policy, after.replace(touched, part))
        decided, events = (
            Decided.concat([decided, out.with_columns(group=touched[out.group])]),
            Events.concat([events, closed]),
        )
    events = events.merged(EventKind.CONFLICT)
    return Outcome(after, decided, Events.concat([events, _changes(policy, state, after)]))


def advance(policy: Policy, state: State, now: int | Ints) -> Outcome:
    """Fire all timers that are due at or before `now` (microseconds; one time, or one for each group), in order of due time."""
    return Outcome(*_fire(policy, state, np.full(len(state), now, np.int64)))


def call(policy: Policy, state: State, arrivals: Arrivals, now: int) -> Outcome:
    """An offer followed by an advance, judged as one call: a micro-batch, a receive. Without a window the rest of a round is due at once,
    but not in the call that was the round.
    """
    first = offer(policy, state, arrivals)
    until = np.full(len(state), now, np.int64)
    if _rounds_are_calls(policy):
        until[arrivals.group] = NEVER
    return first.then(Outcome(*_fire(policy, first.state, until)))


def replay(policy: Policy, state: State, arrivals: Arrivals, until: int) -> Outcome:
    """Take each message at its own time, after firing the timers that are due before it, and then advance to `until`."""
    if _rounds_are_calls(policy):
        return call(policy, state, arrivals, until)
    after, decided, events = _pass(policy, state, arrivals, clocked=True)
    taken_in = Outcome(after, decided, events.merged(EventKind.CONFLICT))
    return taken_in.then(advance(policy, after, until))


def settle(policy: Policy, state: State, now: Ints) -> tuple[State, Decided, Events]:
    """Release the messages that may leave after an operator's action, and restart the clocks; `now` for each group."""
    after, decided, events = _RULES[type(policy)].settle(policy, state, now)
    after, closed = close_emptied(policy, after)
    return after, decided, Events.concat([events, closed]) if len(closed) else events


def go_on(policy: Policy, state: State, now: Ints) -> tuple[State, Decided, Events]:
    """Close the closing groups that hold nothing, after an action that lets nothing leave; `now` for each group."""
    if isinstance(policy, FifoStays | StandardStays):
        return stays.go_on(policy, state, now)
    after, closed = close_emptied(policy, state)
    return after, no_messages(), closed


def why_held(policy: Policy, state: State) -> Ints:
    waits = np.full(len(state.held), Reason.BEHIND_HOLE if isinstance(policy, Standard) else Reason.COLLECTING)
    if isinstance(policy, FifoStays | StandardStays):
        waits[state.held.aside] = Reason.UNOPENED
    if isinstance(policy, StandardNumbers):
        waits = numbers.why_held(policy, state)
    reason = np.where(state.stopped()[state.held.group], Reason.GROUP_STOPPED, waits)
    reason = np.where(state.held.late, Reason.LATE_HELD, reason)
    return np.where(state.held.suspected, Reason.RESTART_SUSPECTED, reason) if isinstance(policy, Standard) else reason


def _fire(policy: Policy, state: State, until: Ints) -> tuple[State, Decided, Events]:
    fire: Callable[..., tuple[State, Decided, Events]] = _RULES[type(policy)].fire
    until = np.minimum(until, FOREVER - 1)  # a group without a clock is due at FOREVER: never
    after, decided, events = fire(policy, state, until)
    after, closed = close_emptied(policy, after)
    return after, decided, Events.concat([events, closed]) if len(closed) else events


def _pass(policy: Policy, state: State, arrivals: Arrivals, *, clocked: bool) -> tuple[State, Decided, Events]:
    rules, course = _RULES[type(policy)], Course(state)
    while True:
        # A group's time never goes back: an earlier moment counts as the latest one.
        time = np.maximum(arrivals.time, state.groups.clock[arrivals.group])
        arrivals = arrivals.with_columns(time=running_latest(arrivals.group, time))
        if clocked:
            state = course.go(*_fire(policy, state, _before_first(state, arrivals)))
        quiet = rules.quiet(policy, state, arrivals, clocked=clocked)
        rest = arrivals.take(~quiet)
        stretch = arrivals.take(quiet) if len(rest) else arrivals
        after = course.go(*rules.take(policy, state, stretch))
        if may_suspend(policy) and rules is not stays:
            course.note(events=suspensions(state, after, stretch))
        after, closed = close_emptied(policy, after)
        course.go(after, events=closed if len(closed) else None)
        if clocked:
            course.note(events=_changes(policy, state, after))
        state = after
        if not len(rest):
            return course.judged()
        busy = np.unique(rest.group)
        if 2 * len(busy) < len(state):
            rest = rest.with_columns(group=np.searchsorted(busy, rest.group))
            course.go_among(busy, *_pass(policy, state.select(busy), rest, clocked=clocked))
            return course.judged()
        arrivals = rest


def _before_first(state: State, arrivals: Arrivals) -> Ints:
    first = first_per_group(arrivals.group)
    return by_group(len(state), NEVER, arrivals.group[first], arrivals.time[first] - 1)


def _rounds_are_calls(policy: Policy) -> TypeGuard[BestEffort]:
    return isinstance(policy, BestEffort) and policy.window is None


def _changes(policy: Policy, before: State, after: State) -> Events:
    return holes.events_between(policy, before, after) if isinstance(policy, Standard) else no_events()
