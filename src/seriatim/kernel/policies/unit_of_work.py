"""`UnitOfWork`: a set that leaves when it is complete, all or nothing. Its numbers begin at the policy's `start`.

A size is compared with places, from 1.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from seriatim.kernel.groups.arrivals import NOT_SAID, Arrivals, undecided
from seriatim.kernel.groups.policy import UnitOfWork
from seriatim.kernel.groups.state import NOTHING, Flag, Held, Remembered, State
from seriatim.kernel.policies.closing import OVER, late_repeats, shut_out
from seriatim.kernel.policies.conflicts import rows_of
from seriatim.kernel.values.columns import (
    Bools,
    Ints,
    by_group,
    first_per_group,
    first_rows,
    last_per_group,
    mask_of,
    order_by,
    put_first,
    sum_before,
    sum_per_group,
)
from seriatim.kernel.values.outcome import Decided, Disposition, EventKind, Events, Reason, no_events, no_messages
from seriatim.kernel.values.time import FOREVER, NEVER, micros

_MAX = 2**63 - 1
#: What becomes of a group whose set has left.
_WHOLLY, _PARTIALLY = Flag.CLOSED | Flag.COMPLETE, Flag.CLOSED | Flag.COMPLETE | Flag.PARTIAL


def quiet(policy: UnitOfWork, state: State, arrivals: Arrivals, *, clocked: bool) -> Bools:
    """The arrivals that can be judged together, because no time-out can fire between them: a prefix of each group."""
    may = _before_size(state, arrivals)
    if not policy.once:
        may &= _before_next(state, arrivals)
    if not clocked or policy.timeout is None:
        return may
    return may & arrivals.in_time(due(policy, state), micros(policy.timeout))


def _before_size(state: State, arrivals: Arrivals) -> Bools:
    """In a closing group the arrivals up to the first with the size: an arrival that the size excludes may have been the highest held."""
    unknown = state.groups.has(Flag.CLOSING) & (state.groups.mark == 0)
    if not unknown.any():
        return np.ones(len(arrivals), np.bool_)
    tells = unknown[arrivals.group] & (arrivals.size != NOT_SAID)
    return sum_before(arrivals.group, tells.astype(np.int64)) == 0


def _before_next(state: State, arrivals: Arrivals) -> Bools:
    """Where a key begins anew, the arrivals before the set can be complete, and the one that may complete it."""
    group = arrivals.group
    lacks = state.groups.mark - np.bincount(state.held.group, minlength=len(state)) - _markers(state)
    # What is held already completes nothing; of an unknown size the first message that tells one may.
    fresh = np.where(
        (state.groups.mark > 0)[group],
        rows_of(state.held, len(state), group, arrivals.sequence) < 0,
        arrivals.size != NOT_SAID,
    )
    most = np.where(state.groups.mark > 0, np.maximum(lacks, 1), 1)
    return sum_before(group, fresh.astype(np.int64)) < most[group]


def take(policy: UnitOfWork, state: State, arrivals: Arrivals) -> tuple[State, Decided, Events]:
    """Judge arrivals between which no timer fires (see `quiet`)."""
    if policy.last is not None:
        size = np.where(arrivals.size == NOT_SAID, NOT_SAID, _places(policy, arrivals.sequence))
        arrivals = arrivals.with_columns(size=size)
    disposition, reason = _judge(policy, state, arrivals)
    if not policy.once:
        _judge_again(state, arrivals, disposition, reason)
    # The first that can be one of the set starts the clock, even if the size, told later, shuts it out.
    may_be = disposition == Disposition.HELD
    began = put_first(np.full(len(state), NEVER, np.int64), may_be, arrivals.group, arrivals.time)
    state, outgrown = _learn_size(policy, state, arrivals, disposition, reason)
    held, position, twice = _collect(state.held, arrivals, disposition)
    disposition[twice], reason[twice] = Disposition.DUPLICATE, Reason.TAKEN_BEFORE
    repeats = np.flatnonzero((disposition == Disposition.DUPLICATE) & (reason == Reason.TAKEN_BEFORE))
    late_repeats(state, arrivals, repeats, disposition, reason)

    groups, group = state.groups, arrivals.group
    flags, clock = groups.flags.copy(), groups.clock_after(group, arrivals.time)
    flags[group] |= Flag.BEGUN
    since = np.where(groups.since == NEVER, began, groups.since)
    since[state.stopped()] = NEVER
    state = state.having(groups.with_columns(flags=flags, clock=clock, since=since), held, state.skipped)

    full = _complete(state) & ~state.stopped()
    done = np.full(len(state), len(arrivals), np.int64)  # the arrival that completes the set
    done[full] = -1
    np.maximum.at(done, held.group, np.where(full[held.group], position, -1))
    after = np.arange(len(arrivals)) > done[group]
    disposition[after], reason[after] = Disposition.DUPLICATE, Reason.SET_COMPLETE
    cause = by_group(len(state), 0, full, arrivals.ref[done[full]])
    state, released, closed = _left(policy, state, full, cause, clock, timed=False)

    void = (disposition == Disposition.HELD) & (arrivals.weight == 0)
    disposition[void], reason[void] = Disposition.VOID, Reason.LEAVES_NOTHING
    aside = np.flatnonzero(disposition != Disposition.HELD)
    rest = arrivals.take(aside)
    decided = Decided.of(rest, disposition[aside], reason[aside])
    return state, Decided.concat([released, outgrown, decided]), closed


def _judge(policy: UnitOfWork, state: State, arrivals: Arrivals) -> tuple[Ints, Ints]:
    """Disposition and reason of each arrival as far as they don't depend on other arrivals; else HELD."""
    groups, group, sequence, size = state.groups, arrivals.group, arrivals.sequence, arrivals.size
    disposition, reason, mark = undecided(arrivals)
    said, known, place = size != NOT_SAID, groups.mark[group], _places(policy, sequence)
    complete = groups.has(Flag.COMPLETE) & ~groups.has(Flag.PARTIAL)
    mark(complete[group], Disposition.DUPLICATE, Reason.SET_COMPLETE)
    if groups.has(OVER).any():
        mark(shut_out(state, arrivals, np.full(len(group), policy.start)), Disposition.LATE, Reason.GROUP_CLOSED)
    mark(sequence < policy.start, Disposition.INVALID, Reason.BELOW_ONE if policy.start else Reason.BELOW_START)
    mark(said & (size < 1), Disposition.INVALID, Reason.SIZE_BELOW_ONE)
    mark((known > 0) & said & (size != known), Disposition.INVALID, Reason.SIZE_CONTRADICTED)
    mark((known > 0) & (place > known), Disposition.INVALID, Reason.ABOVE_SIZE)
    mark((known == 0) & said & (place > size), Disposition.INVALID, Reason.ABOVE_SIZE)
    if len(state.skipped):
        mark(state.skipped.contain(group, sequence), Disposition.DUPLICATE, Reason.TAKEN_BEFORE)
    return disposition, reason


def _judge_again(state: State, arrivals: Arrivals, disposition: Ints, reason: Ints) -> None:
    """A part of the set before, by its number and content, is a duplicate; until the new set has a part, so is one without a content."""
    at = rows_of(state.remembered, len(state), arrivals.group, arrivals.sequence)
    rows = np.flatnonzero((at >= 0) & (disposition == Disposition.HELD))
    if not len(rows):
        return
    own, its = arrivals.fingerprint[rows], state.remembered.fingerprint[at[rows]]
    unknown, same = np.zeros(len(arrivals), np.bool_), np.zeros(len(arrivals), np.bool_)
    same[rows], unknown[rows] = (own == its) & (own != 0), (own == 0) | (its == 0)
    begins = (disposition == Disposition.HELD) & ~same & ~unknown
    first = first_rows(begins, arrivals.group, len(state))
    first[state.held.group] = -1
    again = same | (unknown & (np.arange(len(arrivals)) < first[arrivals.group]))
    disposition[again], reason[again] = Disposition.DUPLICATE, Reason.TAKEN_BEFORE


def _places(policy: UnitOfWork, sequence: Ints) -> Ints:
    """The places of numbers in their set, from 1; the highest number has no place behind it."""
    return sequence if policy.start else np.minimum(sequence, _MAX - 1) + 1


def _learn_size(
    policy: UnitOfWork, state: State, arrivals: Arrivals, disposition: Ints, reason: Ints
) -> tuple[State, Decided]:
    """Take the size from the first message that contains it; later messages that contradict it are invalid. Messages that were held above
    it are invalid, too: they are no part of the set.
    """
    group = arrivals.group
    unknown = state.groups.mark == 0
    says = unknown[group] & (arrivals.size != NOT_SAID) & (disposition == Disposition.HELD)
    if not says.any():
        return state, no_messages()
    _, _, twice = _collect(state.held, arrivals, disposition)
    says[twice] = False
    teller = first_rows(says, group, len(state))
    groups_told = np.flatnonzero(teller < len(arrivals))
    size = state.groups.mark.copy()
    size[groups_told] = arrivals.size[teller[groups_told]]
    place, before = _places(policy, arrivals.sequence), _places(policy, state.held.sequence)

    def mark(where: Bools, why: Reason) -> None:
        where = where & (disposition == Disposition.HELD)
        disposition[where], reason[where] = Disposition.INVALID, why

    learns = unknown[group] & (size[group] > 0)
    later = learns & (np.arange(len(arrivals)) > teller[group])
    contradicts = later & (arrivals.size != NOT_SAID) & (arrivals.size != size[group])
    mark(contradicts, Reason.SIZE_CONTRADICTED)
    reason[contradicts & (reason == Reason.ABOVE_SIZE)] = Reason.SIZE_CONTRADICTED  # it was compared with its own
    mark(later & (place > size[group]), Reason.ABOVE_SIZE)
    # Before the size was told the first of a number above it was taken in, its repetitions were duplicates.
    _, _, twice = _collect(state.held, arrivals, disposition)
    first = ~mask_of(len(arrivals), twice)
    # A void above it is one from the moment it was taken in, and its place goes with the others.
    void = learns & first & (place > size[group]) & (arrivals.weight == 0) & (disposition == Disposition.HELD)
    disposition[void], reason[void] = Disposition.VOID, Reason.LEAVES_NOTHING
    mark(learns & first & (place > size[group]), Reason.ABOVE_SIZE)

    held = state.held
    over = unknown[held.group] & (size[held.group] > 0) & (before > size[held.group])
    removed = held.take(over).messages()
    cause = arrivals.ref[teller[removed.group]] if len(removed) else removed.ref
    outgrown = Decided.of(removed, Disposition.INVALID, Reason.ABOVE_SIZE, cause)
    disposition[twice], reason[twice] = Disposition.DUPLICATE, Reason.TAKEN_BEFORE
    skipped = state.skipped
    if len(skipped):
        top = np.where(size > 0, size + policy.start - 1, _MAX)
        skipped = skipped.take(skipped.first <= top[skipped.group])
        skipped = skipped.with_columns(last=np.minimum(skipped.last, top[skipped.group]))
    return state.having(state.groups.with_columns(mark=size), held.take(~over), skipped), outgrown


def _collect(before: Held, arrivals: Arrivals, disposition: Ints) -> tuple[Held, Ints, Ints]:
    """The held messages with the arrivals that are still HELD, the positions of these arrivals, and the repeated numbers."""
    rows = np.flatnonzero(disposition == Disposition.HELD)
    held, position = before.with_more(arrivals.take(rows).held(0), rows)
    again = np.zeros(len(held), np.bool_)
    again[1:] = (held.sequence[1:] == held.sequence[:-1]) & (held.group[1:] == held.group[:-1])
    return held.take(~again), position[~again], position[again]


def _complete(state: State) -> Bools:
    count = np.bincount(state.held.group, minlength=len(state)) + _markers(state)
    return (state.groups.mark > 0) & (count == state.groups.mark) & ~state.groups.has(Flag.CLOSED)


def _markers(state: State) -> Ints:
    """How many messages of each set were taken out."""
    skipped = state.skipped
    return sum_per_group(skipped.group, skipped.last - skipped.first + 1, len(state))


def _left(
    policy: UnitOfWork, state: State, which: Bools, cause: Ints, at: Ints, *, timed: bool, partial: bool = False
) -> tuple[State, Decided, Events]:
    """Release sets; their groups are closed, or begin anew."""
    before = state
    state, released, closed = _leave(state, which, cause, at, timed=timed, partial=partial)
    return (state, released, closed) if policy.once else (_anew(policy, before, state, which), released, no_events())


def _anew(policy: UnitOfWork, before: State, state: State, which: Bools) -> State:
    """The state after some sets have ended, whose keys begin new ones; `before`: with what they had, which is remembered."""
    groups, its = state.groups, before.held.take(which[before.held.group])
    kept = state.remembered.take(~which[state.remembered.group])
    remembered = Remembered.concat([kept, Remembered(its.group, its.sequence, its.fingerprint)])
    size = policy.size if isinstance(policy.size, int) else 0
    ended = int(_PARTIALLY)
    state = state.having(
        groups.with_columns(
            flags=np.where(which, groups.flags & ~ended, groups.flags), mark=np.where(which, size, groups.mark)
        ),
        skipped=state.skipped.take(~which[state.skipped.group]),
    )
    return replace(state, remembered=remembered.take(order_by(remembered.group, remembered.sequence)))


def _leave(
    state: State, full: Bools, cause: Ints, at: Ints, *, timed: bool, partial: bool = False
) -> tuple[State, Decided, Events]:
    """Release sets and close their groups; `cause` and `at` (the time) are by group. `partial`: they aren't complete."""
    groups, held = state.groups, state.held
    out = full[held.group]
    leaving = held.take(out).messages()
    reason = Reason.PARTIAL if partial else Reason.NONE
    ordinal, last_ordinal = groups.ordinals(leaving.group, leaving.weight)
    released = Decided.of(leaving, Disposition.RELEASED, reason, cause[leaving.group], ordinal=ordinal, timed=timed)
    last = groups.last.copy()
    last[leaving.group] = leaving.sequence  # ascends: the highest stays
    rows = np.flatnonzero(full)
    after = groups.with_columns(
        flags=np.where(full, groups.flags | (_PARTIALLY if partial else _WHOLLY), groups.flags),
        last=last,
        ordinal=last_ordinal,
        since=np.where(full, NEVER, groups.since),
    )
    return (
        state.having(after, held.take(~out), state.skipped),
        released,
        Events.of(EventKind.CLOSED, rows, None, None, at[rows]),
    )


def _lacking(policy: UnitOfWork, state: State, which: Bools, at: Ints) -> Events:
    """The runs of numbers that some sets lack, up to their size; of unknown size up to the highest number that they have."""
    held, size = state.held.take(which[state.held.group]), state.groups.mark
    first, last = first_per_group(held.group), last_per_group(held.group)
    before = np.concatenate([held.sequence[:1], held.sequence[:-1]])
    before = np.where(first, policy.start - 1, before)
    top = np.where(size > 0, size + policy.start - 1, NOTHING)[held.group]
    gap, tail = held.sequence > before + 1, last & (top > held.sequence)
    group = np.concatenate([held.group[gap], held.group[tail]])
    runs = np.concatenate([before[gap], held.sequence[tail]]) + 1, np.concatenate([held.sequence[gap] - 1, top[tail]])
    order = order_by(group, runs[0])
    group, begin, end = group[order], runs[0][order], runs[1][order]
    return Events.of(EventKind.INCOMPLETE, group, begin, end, at[group], count=end - begin + 1)


def due(policy: UnitOfWork, state: State) -> Ints:
    """The time when each group's set times out; `FOREVER` if no clock runs."""
    if policy.timeout is None:
        return np.full(len(state), FOREVER, np.int64)
    since = state.groups.since
    return np.where(since == NEVER, FOREVER, since + micros(policy.timeout))


def fire(policy: UnitOfWork, state: State, until: Ints) -> tuple[State, Decided, Events]:
    """Set aside the held messages of sets that were not complete in time, and close their groups."""
    moments = due(policy, state)
    ripe = moments <= until
    if not ripe.any():
        return state, no_messages(), no_events()
    groups, held = state.groups, state.held
    if policy.on_timeout == "deliver":
        clock = np.where(ripe, np.maximum(groups.clock, moments), groups.clock)
        lacks = _lacking(policy, state, ripe, moments)
        state = state.with_groups(clock=clock)
        state, left, closed = _left(policy, state, ripe, moments, moments, timed=True, partial=True)
        return state, left, Events.concat([lacks, closed])
    out = ripe[held.group]
    removed = held.take(out).messages()
    dead = Decided.of(removed, Disposition.DEAD, Reason.TIMED_OUT, moments[removed.group], timed=True)
    rows = np.flatnonzero(ripe)
    after = groups.with_columns(
        flags=np.where(ripe, groups.flags | Flag.CLOSED, groups.flags),
        since=np.where(ripe, NEVER, groups.since),
        clock=np.where(ripe, np.maximum(groups.clock, moments), groups.clock),
    )
    closed = Events.of(EventKind.CLOSED, rows, None, None, moments[rows])
    over = state.having(after, held.take(~out), state.skipped)
    return (over, dead, closed) if policy.once else (_anew(policy, state, over, ripe), dead, no_events())


def settle(policy: UnitOfWork, state: State, now: Ints) -> tuple[State, Decided, Events]:
    """After a group was resumed: a complete set leaves; the clock of an incomplete set begins anew."""
    remain = (np.bincount(state.held.group, minlength=len(state)) > 0) & ~state.stopped()
    clock = np.maximum(state.groups.clock, now)
    state = state.with_groups(since=np.where(remain, now, NEVER), clock=clock)
    return _left(policy, state, _complete(state) & ~state.stopped(), now, clock, timed=True)
