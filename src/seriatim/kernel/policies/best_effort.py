"""`BestEffort`: ascending within rounds. A round is a set of messages that are collected together and leave together."""

from __future__ import annotations

import numpy as np

from seriatim.kernel.groups.arrivals import Arrivals
from seriatim.kernel.groups.policy import BestEffort
from seriatim.kernel.groups.state import STOPPING, Flag, Held, State
from seriatim.kernel.policies.closing import OVER
from seriatim.kernel.policies.late import free_late
from seriatim.kernel.values.columns import Bools, Ints, last_per_group, mask_of, order_by, put_first, rank_in_group
from seriatim.kernel.values.outcome import Decided, Disposition, Events, Reason, no_events, no_messages
from seriatim.kernel.values.time import FOREVER, NEVER, micros


def _window(policy: BestEffort) -> tuple[int, int]:
    """The microseconds until the highest sequence is fixed, and from then to the release."""
    window = micros(policy.window or 0)
    return window, round(window * policy.buffer)


def quiet(policy: BestEffort, state: State, arrivals: Arrivals, *, clocked: bool) -> Bools:
    """The arrivals that can be judged together, because no timer can fire between them: a prefix of each group."""
    if not clocked or policy.window is None:
        return np.ones(len(arrivals), np.bool_)
    return arrivals.in_time(due(policy, state), _window(policy)[0])


def take(policy: BestEffort, state: State, arrivals: Arrivals) -> tuple[State, Decided, Events]:
    """Collect arrivals between which no timer fires (see `quiet`)."""
    groups, group, sequence = state.groups, arrivals.group, arrivals.sequence
    closed = groups.has(OVER)[group]  # no number is missing here
    late = closed | (sequence < groups.next[group])
    reason = np.where(closed, Reason.GROUP_CLOSED, Reason.ROUND_OVER)
    stopped = state.stopped()[group]
    # A void blocks nothing where no number is waited for; a late void has nothing to deliver and nothing to decide on.
    message = arrivals.weight > 0

    at_once = np.zeros(len(arrivals), np.bool_)
    late_held = np.zeros(len(arrivals), np.bool_)
    flags = groups.flags.copy()
    flags[group] |= Flag.BEGUN
    if policy.late == "deliver":
        at_once, late_held = late & message & ~stopped, late & message & stopped & ~closed
    elif policy.late == "suspend":
        late_held = late & message & ~closed
        flags[group[late_held]] |= Flag.SUSPENDED
    at_once &= ~closed

    kept = np.flatnonzero((~late & message) | late_held)
    batch = arrivals.take(kept)
    waits = groups.has(Flag.FIXED)[batch.group] & (batch.sequence >= groups.mark[batch.group]) & ~late[kept]
    held = Held.concat([state.held, batch.held(0, late_held[kept], waits)])
    held = held.take(order_by(held.group, held.sequence))

    clock = groups.clock_after(group, arrivals.time)
    began = put_first(np.full(len(state), NEVER, np.int64), ~late & message, group, arrivals.time)
    since = np.where(groups.since == NEVER, began, groups.since)
    since[(flags & STOPPING) != 0] = NEVER

    leaving = np.flatnonzero(at_once)
    out = arrivals.take(leaving)
    ordinal, last_ordinal = groups.ordinals(out.group, out.weight)
    released = Decided.of(out, Disposition.RELEASED, reason[leaving], ordinal=ordinal, late=True)
    last = groups.last.copy()
    last[out.group] = out.sequence
    aside = np.flatnonzero((late | ~message) & ~late_held & ~at_once)
    fate = np.where(late, Disposition.LATE, Disposition.VOID)
    reason = np.where(late, reason, Reason.LEAVES_NOTHING)
    rest = arrivals.take(aside)
    decided = Decided.of(rest, fate[aside], reason[aside])
    state = state.having(
        groups.with_columns(flags=flags, since=since, clock=clock, last=last, ordinal=last_ordinal), held, state.skipped
    )
    return _unfix(state), Decided.concat([released, decided]), no_events()


def _unfix(state: State) -> State:
    """Without a running round nothing is fixed and nothing waits for the next one."""
    idle = (state.groups.since == NEVER) & (state.groups.has(Flag.FIXED))
    if not idle.any():
        return state
    flags = np.where(idle, state.groups.flags & ~int(Flag.FIXED), state.groups.flags)
    waits = state.held.waits & ~idle[state.held.group]
    return state.having(state.groups.with_columns(flags=flags), state.held.with_columns(waits=waits), state.skipped)


def due(policy: BestEffort, state: State) -> Ints:
    """The time when each group's round is fixed or released next; `FOREVER` if no clock runs."""
    window, buffer = _window(policy)
    groups = state.groups
    after = np.where(groups.has(Flag.FIXED), window + buffer, window)
    return np.where(groups.since == NEVER, FOREVER, groups.since + after)


def fire(policy: BestEffort, state: State, until: Ints) -> tuple[State, Decided, Events]:
    released = [no_messages()]
    while True:
        moments = due(policy, state)
        ripe = moments <= until
        if not ripe.any():
            return state, Decided.concat(released), no_events()
        if policy.window is None:
            state, out = _leave(state, ripe[state.held.group], moments)
        else:
            fixed = state.groups.has(Flag.FIXED)
            state = _fix(state, ripe & ~fixed, moments)
            ripe &= fixed
            state, out = _leave(state, ripe[state.held.group] & ~state.held.waits, moments)
        released.append(out)


def _fix(state: State, ripe: Bools, moments: Ints) -> State:
    """Fix the highest collected sequence of the rounds whose window is over."""
    groups, held = state.groups, state.held
    tops = np.flatnonzero(last_per_group(held.group))
    highest = groups.mark.copy()
    highest[held.group[tops]] = held.sequence[tops]
    return state.with_groups(
        flags=np.where(ripe, groups.flags | Flag.FIXED, groups.flags),
        mark=np.where(ripe, highest, groups.mark),
        clock=np.where(ripe, np.maximum(groups.clock, moments), groups.clock),
    )


def _leave(state: State, out: Bools, moments: Ints, cause: Ints | None = None) -> tuple[State, Decided]:
    """Release held rows, end their groups' rounds, and begin the next round if messages wait. `cause` are the arrivals that ended the
    rounds, by group; None: their time was over.
    """
    groups, held = state.groups, state.held
    leaving = held.take(out)
    why = (moments if cause is None else cause)[leaving.group]
    ordinal, last_ordinal = groups.ordinals(leaving.group, leaving.weight)
    decided = Decided.of(leaving, Disposition.RELEASED, Reason.NONE, why, ordinal=ordinal, timed=cause is None)
    ended = mask_of(len(state), leaving.group)
    last, highest = groups.last.copy(), groups.next.copy()
    last[leaving.group] = leaving.sequence  # ascends: the highest stays
    highest[leaving.group] = leaving.sequence
    kept = held.take(~out)
    remain = np.bincount(kept.group, minlength=len(state)) > 0
    # The next round begins with its first message, which may have arrived after this round should have left.
    begins = np.maximum(moments, kept.first_arrival(len(state)))
    after = groups.with_columns(
        flags=np.where(ended, groups.flags & ~int(Flag.FIXED), groups.flags),
        next=np.where(ended, np.maximum(groups.next, highest), groups.next),
        last=last,
        ordinal=last_ordinal,
        since=np.where(ended, np.where(remain, begins, NEVER), groups.since),
        clock=np.where(ended, np.maximum(groups.clock, moments), groups.clock),
    )
    return state.having(after, kept.with_columns(waits=kept.waits & ~ended[kept.group]), state.skipped), decided


def end_round(policy: BestEffort, state: State, cause: Ints) -> tuple[State, Decided]:
    """Without a window a round is one call: the lowest `max_rows` messages of each group leave, the others are due at once. `cause`: the
    last arrival of each group.
    """
    held = state.held
    out = ~state.stopped()[held.group]
    if policy.max_rows is not None:
        out &= rank_in_group(held.group) < policy.max_rows
    return _leave(state, out, state.groups.clock, cause)


def settle(policy: BestEffort, state: State, now: Ints) -> tuple[State, Decided, Events]:
    """After a group was resumed: late messages leave; the other held messages begin a round, or without a window leave."""
    state, late = free_late(state, now)
    remain = np.bincount(state.held.group, minlength=len(state)) > 0
    since = np.where(remain & ~state.stopped(), now, NEVER)
    state = state.with_groups(since=since, clock=np.maximum(state.groups.clock, now))
    if policy.window is not None:
        return state, late, no_events()
    state, out = _leave(state, ~state.stopped()[state.held.group], now)
    return state, Decided.concat([late, out]), no_events()
