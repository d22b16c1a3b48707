"""The effects of operators' actions on one group. Each takes the state of a single group and returns an `Outcome`.

Which states allow an action, and what it takes, is in ``kernel/groups/verbs.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from seriatim.errors import ActionRefused, UsageError, shown
from seriatim.kernel.groups.incarnation import begun_anew
from seriatim.kernel.groups.numbers import OF_ENDED
from seriatim.kernel.groups.policy import BestEffort, Policy, Standard, StandardNumbers, Stays, UnitOfWork
from seriatim.kernel.groups.state import NOTHING, Flag, Held, Ranges, State
from seriatim.kernel.groups.states import GroupState, shown_state
from seriatim.kernel.groups.verbs import Action, Situation, of_rule, require
from seriatim.kernel.policies import holes, numbers
from seriatim.kernel.resequence import Outcome, due, go_on, offer, settle
from seriatim.kernel.values.columns import Bools, Ints, empty_ints
from seriatim.kernel.values.outcome import Decided, Disposition, EventKind, Events, Reason, no_events, no_messages
from seriatim.kernel.values.time import FOREVER, NEVER


def state_of(policy: Policy, state: State) -> GroupState:
    hole = overdue = False
    if _gathers(policy, state):
        hole = bool(len(state.held.messages()))
    elif isinstance(policy, Standard):
        hole = bool(holes.holes(policy, state)[0][0])
        overdue = hole and policy.hole_timeout is not None and int(due(policy, state)[0]) == FOREVER
    return shown_state(int(state.groups.flags[0]), hole=hole, overdue=overdue)


def situation_of(policy: Policy, state: State) -> Situation:
    shown, by_operator = state_of(policy, state), bool(state.groups.has(Flag.BY_OPERATOR)[0])
    late = bool(_stopping_late(policy, state.held).any()) and not by_operator
    stopped_by_one = shown is GroupState.FAULTED or (shown is GroupState.SUSPENDED and late)
    unopened = bool(state.groups.has(Flag.UNOPENED)[0])
    return Situation(shown, stopped_by_one, unopened=unopened, postponed=_gathers(policy, state))


def _gathers(policy: Policy, state: State) -> bool:
    """Whether the group holds everything, because it doesn't know its first number yet."""
    return isinstance(policy, StandardNumbers) and policy.finds_start and not bool(state.groups.has(Flag.BEGUN)[0])


def _stopping_late(policy: Policy, held: Held) -> Bools:
    """The late messages that stop the group, each by itself."""
    if not isinstance(policy, Standard):
        return held.late
    return (held.late & ~held.suspected) | (held.bits & OF_ENDED != 0)


def _without_round(policy: Policy, held: Held) -> Held:
    """The held messages, of which none waits for the next round."""
    return held.with_columns(waits=held.waits & (not isinstance(policy, BestEffort)))


def _require(action: Action, policy: Policy, state: State, group: str, *, named: bool = False) -> Situation:
    situation = situation_of(policy, state)
    require(action, situation, f"group {group!r}", named=named)
    return situation


def suspend(policy: Policy, state: State, now: int, group: str) -> Outcome:
    """Nothing leaves, no clock runs, arriving messages are accepted."""
    _require(Action.SUSPEND, policy, state, group)
    groups = state.groups
    flags = (groups.flags | Flag.SUSPENDED | Flag.BY_OPERATOR) & ~int(Flag.FIXED)
    calm = state.with_groups(flags=flags, since=_one(NEVER), reports=empty_ints(1), clock=np.maximum(groups.clock, now))
    fresh = np.flatnonzero(~groups.has(Flag.SUSPENDED))
    suspended = Events.of(EventKind.SUSPENDED, fresh, None, None, calm.groups.clock[fresh])
    held = _without_round(policy, state.held)
    return Outcome(state.having(calm.groups, held, state.skipped), no_messages(), suspended)


def resume(policy: Policy, state: State, now: int, group: str) -> Outcome:
    """Resume the group: held late messages leave first, flagged, then others that may; clocks begin anew. Messages that are held because
    their producer seemed to have begun anew are duplicates: an operator says that it hasn't.
    """
    _require(Action.RESUME, policy, state, group)
    return _free(policy, state, now, Flag.SUSPENDED | Flag.BY_OPERATOR)


def restart(policy: Policy, state: State, now: int, group: str) -> Outcome:
    """Begin the group anew, from the policy's `start`: held messages come back, in order of arrival, as if they arrived now."""
    situation = _require(Action.RESTART, policy, state, group)
    if not isinstance(policy, Standard):
        others = [one for one in situation.allowed if one is not Action.RESTART]
        raise ActionRefused(
            "cannot restart the group: only groups of the policy standard have a first number",
            where=f"group {group!r}",
            remedy=f"allowed: {', '.join(others)}",
        )
    clock = np.maximum(state.groups.clock, now)
    fresh = begun_anew(policy, state, empty_ints(1), clock)
    # The failed message was released before, and still waits to be handed out. The engine counts an operator's restart by itself.
    flags = fresh.groups.flags | (state.groups.flags & Flag.FAULTED)
    fresh = fresh.with_groups(flags=flags, mark=state.groups.mark if isinstance(policy, Stays) else fresh.groups.mark)
    back = state.held.take(np.argsort(state.held.ref, kind="stable"))
    time = np.broadcast_to(clock, len(back))
    outcome = offer(policy, fresh, numbers.as_arrived(policy, back, time))
    # A void counts as one from the moment it came.
    decided = outcome.decided.take(~np.isin(outcome.decided.ref, back.ref[back.weight == 0]))
    decided = decided.with_columns(timed=np.ones(len(decided), np.bool_), cause=np.full(len(decided), clock[0]))
    events = outcome.events
    if state.groups.has(Flag.SUSPENDED)[0]:
        events = Events.concat([Events.of(EventKind.RESUMED, empty_ints(1), None, None, clock), events])
    return Outcome(outcome.state, decided, events)


def retry(policy: Policy, state: State, now: int, group: str) -> Outcome:
    """Let a faulted group go on with the message that failed; clocks begin anew."""
    _require(Action.RETRY, policy, state, group)
    return _free(policy, state, now, Flag.FAULTED)


def _free(policy: Policy, state: State, now: int, from_: Flag) -> Outcome:
    free = state.with_groups(flags=state.groups.flags & ~int(from_))
    aside = no_messages()
    if isinstance(policy, Standard) and from_ & Flag.BY_OPERATOR:  # a resume
        free = free.with_groups(suspects=empty_ints(1), suspect=_one(NOTHING))
        back = state.held.suspected
        aside = _set_aside(state.held.take(back).messages(), Disposition.DUPLICATE, Reason.TAKEN_FOR_REPEATED, now)
        free = state.having(free.groups, free.held.take(~back), free.skipped)
    outcome = _settled(policy, state, free, now, aside)
    if not from_ & Flag.SUSPENDED:
        return outcome
    resumed = Events.of(EventKind.RESUMED, empty_ints(1), None, None, outcome.state.groups.clock)
    return Outcome(outcome.state, outcome.decided, Events.concat([resumed, outcome.events]))


def _settled(policy: Policy, before: State, changed: State, now: int, decided: Decided) -> Outcome:
    moment = np.maximum(changed.groups.clock, now)
    after, released, events = settle(policy, changed, moment)
    if isinstance(policy, Standard):
        events = Events.concat([events, holes.events_between(policy, before, after)])
    return Outcome(after, Decided.concat([decided, released]), events)


def skip_message(policy: Policy, state: State, now: int, group: str, ref: int | None = None) -> Outcome:
    """Set aside the message that stopped the group; with `ref` this held message, whatever it waits for. A late message stops its group:
    the first is set aside, and after the last one the group goes on. In a faulted group the failed message was released before: the engine
    has it and sets it aside, and the group goes on. The number of a message that isn't late stays taken: a marker is left in its place,
    which is no message; it is passed with its run, and counts as skipped then.
    """
    situation = _require(Action.SKIP_MESSAGE, policy, state, group, named=ref is not None)
    if ref is None and situation.state is GroupState.FAULTED:
        return _free(policy, state, now, Flag.FAULTED)
    late = np.flatnonzero(_stopping_late(policy, state.held))
    if ref is None:
        ref = int(state.held.ref[late].min())
    out = state.held.ref == ref
    stops = situation.by_message and situation.state is GroupState.SUSPENDED
    if not stops or not _stopping_late(policy, state.held)[out].all():
        return _taken_out(policy, state, now, out, Reason.SKIPPED_BY_OPERATOR)
    dead = _set_aside(state.held.take(out), Disposition.DEAD, Reason.SKIPPED_BY_OPERATOR, now)
    rest = state.having(state.groups, state.held.take(~out), state.skipped)
    if _stopping_late(policy, rest.held).any() or rest.held.late.any():
        return Outcome(rest, dead, no_events())
    freed = _free(policy, rest, now, Flag.SUSPENDED)
    return Outcome(freed.state, Decided.concat([dead, freed.decided]), freed.events)


def _taken_out(policy: Policy, state: State, now: int, out: Bools, why: Reason) -> Outcome:
    """Make held messages dead, and leave markers in the place of those whose numbers are waited for."""
    groups, held = state.groups, state.held
    gone = held.take(out).messages()
    kept = held.take(~out | (held.weight == 0))
    skipped = state.skipped
    if isinstance(policy, Standard | UnitOfWork):
        skipped = _with_markers(policy, skipped, gone.take(~gone.late & ~gone.waits), groups.next)
    clock = np.maximum(groups.clock, now)
    flags, since, reports = groups.flags, groups.since, groups.reports
    waiting = kept if isinstance(policy, UnitOfWork) else kept.messages()
    if waiting.late.all():  # nothing waits any more
        flags, since, reports = flags & ~int(Flag.FIXED), _one(NEVER), empty_ints(1)
    elif groups.has(Flag.FIXED)[0] and waiting.waits[~waiting.late].all():
        # The remaining messages came after its round was fixed: that one is over, and the next one begins.
        flags, since = flags & ~int(Flag.FIXED), np.maximum(clock, kept.first_arrival(1))
    if not (flags & Flag.FIXED)[0]:
        kept = _without_round(policy, kept)
    after = state.having(groups.with_columns(flags=flags, since=since, reports=reports, clock=clock), kept, skipped)
    after, more, told = go_on(policy, after, clock)
    return Outcome(after, Decided.concat([_set_aside(gone, Disposition.DEAD, why, now), more]), told)


def _with_markers(policy: Policy, skipped: Ranges, gone: Held, following: Ints) -> Ranges:
    """The skipped numbers of the only group with those of messages that are taken out."""
    if gone.through is None:
        return skipped.add(_runs(policy, gone.sequence), following)
    for first, last in zip(gone.sequence.tolist(), gone.ends.tolist(), strict=True):
        skipped = skipped.with_run(first, last, policy.increment if isinstance(policy, Standard) else 1)
    return skipped.kept(following)


def _runs(policy: Policy, those: Ints) -> Ranges:
    step = policy.increment if isinstance(policy, Standard) else 1
    those = np.unique(those)
    begins = np.ones(len(those), np.bool_)
    begins[1:] = those[1:] != those[:-1] + step
    ends = np.append(begins[1:], True)[: len(those)]
    first = those[begins]
    return Ranges(empty_ints(len(first)), first, those[ends])


def take_out(policy: Policy, state: State, now: int, group: str, numbers: Ints, *, failed: bool = False) -> Outcome:
    """Record the numbers of released messages that the engine takes out as skipped: they are late when they come again. `failed`: it takes
    out the message that failed, which stops the group no more.
    """
    _require(Action.SKIP_MESSAGE, policy, state, group, named=True)
    if failed:
        return _free(policy, state, now, Flag.FAULTED)
    groups = state.groups
    if isinstance(policy, Standard):
        at = empty_ints(len(numbers))
        numbers = numbers[(numbers < groups.next[at]) & ~state.skipped.contain(at, numbers)]
        state = state.having(groups, state.held, state.skipped.add(_runs(policy, numbers), groups.next))
    return Outcome.unchanged(state.with_groups(clock=np.maximum(groups.clock, now)))


def put_back(policy: Policy, state: State, numbers: Ints, group: Ints | None = None) -> State:
    """Forget that messages with these numbers were taken out: they come back. `group`: the group of each; None: the only one."""
    if not isinstance(policy, Standard | UnitOfWork) or not len(state.skipped):
        return state
    step = policy.increment if isinstance(policy, Standard) else 1
    group = empty_ints(len(numbers)) if group is None else group
    return state.having(state.groups, state.held, state.skipped.put_back(group, numbers, step))


def skip_hole(policy: Policy, state: State, now: int, group: str, through: int | None = None) -> Outcome:
    """Record the missing numbers up to `through` (default: the whole hole) as skipped; the messages behind them leave."""
    _require(Action.SKIP_HOLE, policy, state, group)
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
    changed = state.having(
        state.groups.with_columns(next=_one(end + policy.increment)),
        state.held,
        state.skipped.add(Ranges(empty_ints(1), _one(first), _one(end)), _one(end + policy.increment)),
    )
    outcome = _settled(policy, changed, changed, now, no_messages())
    skipped = Events.of(EventKind.HOLE_SKIPPED, empty_ints(1), _one(first), _one(end), outcome.state.groups.clock)
    return _with_skipped(policy, state, outcome, skipped)


def skip_holes(policy: Standard, state: State, now: int, group: str, through: int, under_way: Ints) -> Outcome:
    """Like `skip_hole`, for all holes up to that number, if there are any: messages may wait between them, which leave in their places.
    `under_way`: numbers of which some messages are there, and others are still to come: they count as skipped, too.
    """
    outcome = Outcome.unchanged(state)
    while int(outcome.state.groups.next[0]) <= through and holes.holes(policy, outcome.state)[0][0]:
        end = min(through, int(holes.holes(policy, outcome.state)[2][0]))
        outcome = outcome.then(skip_hole(policy, outcome.state, now, group, end))
    told = outcome.events.kind == EventKind.HOLE_SKIPPED
    ranges = zip(outcome.events.first[told].tolist(), outcome.events.last[told].tolist(), strict=True)
    numbers = [np.arange(first, last + 1, policy.increment) for first, last in ranges]
    runs = _runs(policy, np.concatenate([under_way, *numbers]))
    clock = np.repeat(np.maximum(outcome.state.groups.clock, now), len(runs))
    skipped = Events.of(EventKind.HOLE_SKIPPED, runs.group, runs.first, runs.last, clock)
    return Outcome(outcome.state, outcome.decided, Events.concat([skipped, outcome.events.take(~told)]))


def reset(policy: Policy, state: State, now: int, group: str, next: int) -> Outcome:  # noqa: A002 -- the word of the design
    """Go on at another number. Forward: held messages below it become late, and passed numbers count as skipped."""
    situation = _require(Action.RESET, policy, state, group)
    if not isinstance(policy, Standard):
        others = [one for one in situation.allowed if one not in (Action.RESET, Action.SKIP_HOLE, Action.RESTART)]
        raise ActionRefused(
            f"cannot reset the group, which is {situation.state}: only the policy standard has a next number",
            where=f"group {group!r}",
            remedy=f"allowed: {', '.join(others)}",
        )
    groups, step = state.groups, policy.increment
    following = _whole(next, group)
    next_, first = int(groups.next[0]), int(groups.first[0])
    has_begun = groups.has(Flag.BEGUN)[0] or not policy.finds_start
    if (has_begun and (following - next_) % step) or not -(2**62) <= following <= 2**62:
        raise ActionRefused(
            f"the group has no number {following}: its next number is {next_}, its increment {step}",
            where=f"group {group!r}",
        )
    if policy.finds_start and not groups.has(Flag.BEGUN)[0]:  # nothing has left yet: there is nothing to pass over
        begun = state.with_groups(
            first=_one(following), next=_one(following), flags=groups.flags | Flag.BEGUN, since=_one(NEVER)
        )
        if isinstance(policy, StandardNumbers):
            return _told(policy, state, numbers.told(policy, begun, following), now)
        return Outcome.unchanged(begun)
    if following == next_:
        return Outcome.unchanged(state)
    passed = ~state.held.late & ~state.held.waits & (state.held.ends < following)
    late = _set_aside(state.held.take(passed).messages(), Disposition.LATE, Reason.PASSED_OVER, now)
    markers = state.skipped.first >= next_
    behind, ahead = state.skipped.take(~markers), state.skipped.take(markers)
    if following > next_:
        ahead = ahead.take(ahead.last >= following)
        ahead = ahead.with_columns(first=np.maximum(ahead.first, following))
        behind = behind.add(Ranges(empty_ints(1), _one(next_), _one(following - step)), _one(following))
    else:
        behind = behind.below(0, following)
    skipped = Ranges.concat([behind, ahead])
    changed = state.having(
        groups.with_columns(next=_one(following), first=_one(min(first, following)), flags=groups.flags | Flag.BEGUN),
        state.held.take(~passed),
        skipped,
    )
    changed = numbers.moved(policy, changed, following)
    outcome = _settled(policy, changed, changed, now, late)
    told = empty_ints(int(following > next_))
    from_, through = (np.full(len(told), number, np.int64) for number in (next_, following - step))
    passed_over = Events.of(EventKind.HOLE_SKIPPED, told, from_, through, outcome.state.groups.clock[told])
    return _with_skipped(policy, state, outcome, passed_over)


def _told(policy: StandardNumbers, before: State, told: tuple[State, Held, Decided], now: int) -> Outcome:
    """A group that gathered begins where an operator says."""
    begun, below, off = told
    late = _set_aside(below, Disposition.LATE, Reason.PASSED_OVER, now)
    off = off.with_columns(cause=np.full(len(off), now, np.int64), timed=np.ones(len(off), np.bool_))
    return _settled(policy, before, begun, now, Decided.concat([late, off]))


def _with_skipped(policy: Standard, before: State, outcome: Outcome, skipped: Events) -> Outcome:
    """With the events of skipped numbers, of numbers without a message, of the end of the group, and of the hole that opens."""
    passed = outcome.events.take(np.isin(outcome.events.kind, (EventKind.VOID, EventKind.CLOSED)))
    opened = holes.events_between(policy, before, outcome.state)
    opened = opened.take(opened.kind == EventKind.HOLE_OPENED)
    return Outcome(outcome.state, outcome.decided, Events.concat([skipped, passed, opened]))


def abort(policy: Policy, state: State, now: int, group: str) -> Outcome:
    """Make all held messages dead, and leave markers in their places, as `skip_message` does with one. `next` stays: numbers that never
    came can still come. The engine makes queued messages dead, also the failed one, so the group isn't faulted.
    """
    _require(Action.ABORT, policy, state, group)
    state = state.with_groups(flags=state.groups.flags & ~int(Flag.FAULTED))
    return _taken_out(policy, state, now, np.ones(len(state.held), np.bool_), Reason.ABORTED)


def close(policy: Policy, state: State, now: int, group: str, *, at_once: bool = False) -> Outcome:
    """Close the group: new messages are late, except missing numbers below the highest one held. Released messages leave, and held ones go
    on by the usual rules; the group is closed when it holds nothing. `at_once`: nothing leaves any more, and what is there can only be
    aborted.
    """
    _require(Action.CLOSE, policy, state, group)
    groups = state.groups
    clock, is_closed = np.maximum(groups.clock, now), bool(groups.has(Flag.CLOSED)[0])
    if is_closed and (not at_once or isinstance(policy, UnitOfWork)):
        return Outcome.unchanged(state)
    if not at_once:
        return Outcome(*go_on(policy, state.with_groups(flags=groups.flags | Flag.CLOSING, clock=clock), clock))
    flags = (groups.flags | Flag.CLOSED) & ~int(Flag.CLOSING | Flag.COMPLETE | Flag.UNOPENED)
    after = state.with_groups(flags=flags, since=_one(NEVER), reports=empty_ints(1), clock=clock)
    told = empty_ints(int(not is_closed))
    return Outcome(after, no_messages(), Events.of(EventKind.CLOSED, told, None, None, clock[told]))


def _whole(number: int, group: str) -> int:
    if isinstance(number, bool) or not isinstance(number, int | np.integer):
        raise UsageError(f"{shown(number)} is not a whole number", where=f"group {shown(group)}")
    return int(number)


def _one(value: int) -> Ints:
    return np.array([value], np.int64)


def _set_aside(held: Held, disposition: Disposition, reason: Reason, now: int) -> Decided:
    held = held.take(np.argsort(held.ref, kind="stable"))
    return Decided.of(held, disposition, reason, np.full(len(held), now, np.int64), timed=True)


#: What each action does to a group, by its name.
_EFFECTS: Mapping[Action, Callable[..., Outcome]] = {
    Action(effect.__name__): effect
    for effect in (suspend, resume, retry, skip_message, skip_hole, reset, restart, abort, close)
}


def apply(
    policy: Policy, state: State, now: int, group: str, action: Action, given: Mapping[str, Any] | None = None
) -> Outcome:
    """Perform an action on the group; of what is given it gets what its rule takes. Raises `ActionRefused`: the group doesn't allow it.
    Raises `UsageError`: it isn't an action on a group, or what is given is wrong.
    """
    if action not in _EFFECTS:
        raise UsageError(f"cannot {action} such a group")
    return _EFFECTS[action](policy, state, now, group, **of_rule(action, given or {}))
