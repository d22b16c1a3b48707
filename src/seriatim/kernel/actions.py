"""The effects of operators' actions on one group. Each takes the state of a single group and returns an `Outcome`.

The table of the actions that each state allows is in ``states.py``.
"""

from __future__ import annotations

import numpy as np

from seriatim.errors import ActionRefused, UsageError, shown
from seriatim.kernel import holes
from seriatim.kernel.columns import Ints, empty_ints
from seriatim.kernel.outcome import Decided, Disposition, EventKind, Events, Reason, no_events, no_messages
from seriatim.kernel.policy import Policy, Standard
from seriatim.kernel.resequence import Outcome, due, settle
from seriatim.kernel.state import Flag, Held, Ranges, State
from seriatim.kernel.states import Action, GroupState, allowed_in, require, shown_state
from seriatim.kernel.time import FOREVER, NEVER

__all__ = ["abort", "close", "reset", "resume", "retry", "skip_hole", "skip_message", "state_of", "suspend"]


def state_of(policy: Policy, state: State) -> GroupState:
    """The state that the group shows."""
    hole = overdue = False
    if isinstance(policy, Standard):
        hole = bool(holes.holes(policy, state)[0][0])
        overdue = hole and policy.hole_timeout is not None and int(due(policy, state)[0]) == FOREVER
    return shown_state(int(state.groups.flags[0]), hole=hole, overdue=overdue)


def suspend(policy: Policy, state: State, now: int, group: str) -> Outcome:
    """Nothing leaves, no clock runs, arriving messages are accepted."""
    require(Action.SUSPEND, state_of(policy, state), group)
    groups = state.groups
    flags = (groups.flags | Flag.SUSPENDED) & ~int(Flag.FIXED)
    calm = state.with_groups(flags=flags, since=_one(NEVER), reports=empty_ints(1), clock=np.maximum(groups.clock, now))
    waits = np.zeros(len(state.held), np.bool_)
    fresh = np.flatnonzero(~groups.has(Flag.SUSPENDED))
    suspended = Events.of(EventKind.SUSPENDED, fresh, None, None, calm.groups.clock[fresh])
    return Outcome(State(calm.groups, state.held.with_columns(waits=waits), state.skipped), no_messages(), suspended)


def resume(policy: Policy, state: State, now: int, group: str) -> Outcome:
    """Resume the group: held late messages leave first, flagged, then others that may; clocks begin anew."""
    require(Action.RESUME, state_of(policy, state), group)
    return _free(policy, state, now, Flag.SUSPENDED)


def retry(policy: Policy, state: State, now: int, group: str) -> Outcome:
    """Let a faulted group go on with the message that failed; clocks begin anew."""
    require(Action.RETRY, state_of(policy, state), group)
    return _free(policy, state, now, Flag.FAULTED)


def _free(policy: Policy, state: State, now: int, from_: Flag) -> Outcome:
    free = state.with_groups(flags=state.groups.flags & ~int(from_))
    outcome = _settled(policy, state, free, now, no_messages())
    if from_ is not Flag.SUSPENDED:
        return outcome
    resumed = Events.of(EventKind.RESUMED, empty_ints(1), None, None, outcome.state.groups.clock)
    return Outcome(outcome.state, outcome.decided, Events.concat([resumed, outcome.events]))


def _settled(policy: Policy, before: State, changed: State, now: int, decided: Decided) -> Outcome:
    moment = np.maximum(changed.groups.clock, now)
    after, released, events = settle(policy, changed, moment)
    if isinstance(policy, Standard):
        events = Events.concat([events, holes.events_between(policy, before, after)])
    return Outcome(after, Decided.concat([decided, released]), events)


def skip_message(policy: Policy, state: State, now: int, group: str) -> Outcome:
    """Set aside the first late message that stops the group; after the last such message the group goes on.

    In a faulted group the failed message was released before: the engine has it and sets it aside, and the group
    goes on.
    """
    shown = state_of(policy, state)
    require(Action.SKIP_MESSAGE, shown, group)
    if shown is GroupState.FAULTED:
        return _free(policy, state, now, Flag.FAULTED)
    late = np.flatnonzero(state.held.late)
    if not len(late):
        raise ActionRefused(
            f"no message blocks the group, which is {shown}", where=f"group {group!r}", remedy="resume it"
        )
    first = late[np.argmin(state.held.ref[late])]
    out = np.zeros(len(state.held), np.bool_)
    out[first] = True
    dead = _set_aside(state.held.take(out), Disposition.DEAD, Reason.SKIPPED_BY_OPERATOR, now)
    rest = State(state.groups, state.held.take(~out), state.skipped)
    if len(late) > 1:
        return Outcome(rest, dead, no_events())
    freed = _free(policy, rest, now, Flag.SUSPENDED)
    return Outcome(freed.state, Decided.concat([dead, freed.decided]), freed.events)


def skip_hole(policy: Policy, state: State, now: int, group: str, through: int | None = None) -> Outcome:
    """Record the missing numbers up to `through` (default: the whole hole) as skipped; the messages behind them leave."""
    require(Action.SKIP_HOLE, state_of(policy, state), group)
    if not isinstance(policy, Standard):
        raise ActionRefused("cannot skip a hole: only the policy standard has holes", where=f"group {group!r}")
    _, firsts, lasts = holes.holes(policy, state)
    first, last = int(firsts[0]), int(lasts[0])
    end = last if through is None else _whole(through, group)
    if not first <= end <= last or (end - first) % policy.increment:
        raise ActionRefused(
            f"{end} is not in the hole, which is {first}..{last} in steps of {policy.increment}",
            where=f"group {group!r}",
            remedy="give a number of the hole, or none to skip all of it",
        )
    changed = State(
        state.groups.with_columns(next=_one(end + policy.increment)),
        state.held,
        state.skipped.add(Ranges(empty_ints(1), _one(first), _one(end))),
    )
    outcome = _settled(policy, changed, changed, now, no_messages())
    skipped = Events.of(EventKind.HOLE_SKIPPED, empty_ints(1), _one(first), _one(end), outcome.state.groups.clock)
    opened = holes.events_between(policy, state, outcome.state)
    opened = opened.take(opened.kind == EventKind.HOLE_OPENED)
    return Outcome(outcome.state, outcome.decided, Events.concat([skipped, opened]))


def reset(policy: Policy, state: State, now: int, group: str, following: int) -> Outcome:
    """Go on at another number. Forward: held messages below it become late, and passed numbers count as skipped."""
    shown = state_of(policy, state)
    require(Action.RESET, shown, group)
    if not isinstance(policy, Standard):
        others = [one for one in allowed_in(shown) if one not in (Action.RESET, Action.SKIP_HOLE)]
        raise ActionRefused(
            f"cannot reset the group, which is {shown}: only the policy standard has a next number",
            where=f"group {group!r}",
            remedy=f"allowed: {', '.join(others)}",
        )
    groups, step = state.groups, policy.increment
    _whole(following, group)
    next_, first = int(groups.next[0]), int(groups.first[0])
    if (following - next_) % step or not -(2**62) <= following <= 2**62:
        raise ActionRefused(
            f"the group has no number {following}: its next number is {next_}, its increment {step}",
            where=f"group {group!r}",
        )
    if following == next_:
        return Outcome(state, no_messages(), no_events())
    passed = ~state.held.late & (state.held.sequence < following)
    late = _set_aside(state.held.take(passed), Disposition.LATE, Reason.PASSED_OVER, now)
    skipped = state.skipped
    if following > next_:
        skipped = skipped.add(Ranges(empty_ints(1), _one(next_), _one(following - step)))
    else:
        skipped = skipped.below(0, following)
    changed = State(
        groups.with_columns(next=_one(following), first=_one(min(first, following)), flags=groups.flags | Flag.BEGUN),
        state.held.take(~passed),
        skipped,
    )
    outcome = _settled(policy, changed, changed, now, late)
    told = empty_ints(int(following > next_))
    from_, through = (np.full(len(told), number, np.int64) for number in (next_, following - step))
    passed_over = Events.of(EventKind.HOLE_SKIPPED, told, from_, through, outcome.state.groups.clock[told])
    opened = holes.events_between(policy, state, outcome.state)
    opened = opened.take(opened.kind == EventKind.HOLE_OPENED)
    return Outcome(outcome.state, outcome.decided, Events.concat([passed_over, opened]))


def abort(policy: Policy, state: State, now: int, group: str) -> Outcome:
    """Make all held messages dead. The engine makes queued messages dead, also the failed one, so the group isn't faulted."""
    require(Action.ABORT, state_of(policy, state), group)
    dead = _set_aside(state.held, Disposition.DEAD, Reason.ABORTED, now)
    groups = state.groups.with_columns(
        since=_one(NEVER),
        reports=empty_ints(1),
        flags=state.groups.flags & ~int(Flag.FIXED | Flag.FAULTED),
        clock=np.maximum(state.groups.clock, now),
    )
    return Outcome(State(groups, Held.empty(), state.skipped), dead, no_events())


def close(policy: Policy, state: State, now: int, group: str) -> Outcome:
    """Close the group: later messages are late; held messages stay, and can be aborted."""
    shown = state_of(policy, state)
    require(Action.CLOSE, shown, group)
    if shown is GroupState.CLOSED:
        return Outcome(state, no_messages(), no_events())
    clock = np.maximum(state.groups.clock, now)
    closed = state.with_groups(
        flags=state.groups.flags | Flag.CLOSED, since=_one(NEVER), reports=empty_ints(1), clock=clock
    )
    return Outcome(closed, no_messages(), Events.of(EventKind.CLOSED, empty_ints(1), None, None, clock))


def _whole(number: int, group: str) -> int:
    """A number that an operator names.

    Raises:
        UsageError: it isn't a whole number.
    """
    if isinstance(number, bool) or not isinstance(number, int | np.integer):
        raise UsageError(f"{shown(number)} is not a whole number", where=f"group {shown(group)}")
    return int(number)


def _one(value: int) -> Ints:
    return np.array([value], np.int64)


def _set_aside(held: Held, disposition: Disposition, reason: Reason, now: int) -> Decided:
    held = held.take(np.argsort(held.ref, kind="stable"))
    return Decided.of(
        held.group, held.sequence, held.ref, disposition, reason, np.full(len(held), now, np.int64), timed=True
    )
