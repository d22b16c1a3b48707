"""`Standard`: contiguous numbers per group. The rules 1 to 6 of the design, on arrays.

After sorting held and arriving messages together by (group, number), a message leaves exactly if its
number equals ``next + increment * rank`` in its group, where a run of markers counts as so many: no loop over groups or
messages. Results that depend on the order of arrival (which of two equal numbers is first, which arrival released a run, when a
hole opened) follow from the positions of the arrivals, which are carried along.
"""

from __future__ import annotations

import numpy as np

from seriatim.kernel.groups.arrivals import Arrivals, undecided
from seriatim.kernel.groups.policy import Standard, StandardStays
from seriatim.kernel.groups.state import Flag, Held, Remembered, State
from seriatim.kernel.policies import copies, restarts
from seriatim.kernel.policies.closing import OVER, late_repeats, shut_out
from seriatim.kernel.policies.conflicts import Likeness, compared, conflicts
from seriatim.kernel.policies.holes import Taken, due, fire, passed_voids, taken
from seriatim.kernel.policies.late import free_late
from seriatim.kernel.values.columns import (
    Bools,
    Ints,
    by_group,
    empty_ints,
    first_per_group,
    first_rows,
    mask_of,
    none_so_far,
    put_first,
    rank_in_group,
    running_latest,
    running_max,
    sum_before,
)
from seriatim.kernel.values.outcome import Decided, Disposition, Events, MessageRows, Reason, no_events, no_messages
from seriatim.kernel.values.time import FOREVER, NEVER, micros

__all__ = ["due", "fire", "quiet", "release", "repeats", "settle", "take"]


def quiet(policy: Standard, state: State, arrivals: Arrivals, *, clocked: bool) -> Bools:
    """The arrivals that can be judged together: no timer can fire between them, no capacity can overflow, no marker passes. They are a
    prefix of each group, at least its first arrival. `clocked`: timers fire between messages (event time).
    """
    may = np.ones(len(arrivals), np.bool_)
    if clocked and policy.hole_timeout is not None:
        may &= _before_timers(policy, state, arrivals, micros(policy.hole_timeout))
    if policy.capacity is not None:
        may &= _within_capacity(policy.capacity, state, arrivals)
    if len(state.skipped):
        may &= _before_markers(state, arrivals)
    if policy.on_restart == "suspend":
        may &= restarts.one_by_one(policy, state, arrivals)
    return may


def _before_markers(state: State, arrivals: Arrivals) -> Bools:
    """Return the arrivals up to the first whose meaning depends on a marker: its number is a duplicate while the marker waits, and late
    when it has passed.
    """
    group = arrivals.group
    marked = (arrivals.ends >= state.groups.next[group]) & state.skipped.contain(group, arrivals.sequence)
    limit = first_rows(marked & ~first_per_group(group), group, len(state))
    return np.arange(len(arrivals)) < limit[group]


def _before_timers(policy: Standard, state: State, arrivals: Arrivals, period: int) -> Bools:
    groups, group = state.groups, arrivals.group
    rank = rank_in_group(group)
    # A fresh hole can open no earlier than at the first message that doesn't simply continue its group.
    continues = arrivals.sequence == groups.next[group] + policy.increment * rank
    continues &= (groups.since == NEVER)[group]
    if policy.finds_start:
        continues &= groups.has(Flag.BEGUN)[group]
    fresh = put_first(np.full(len(state), FOREVER, np.int64), ~continues, group, arrivals.time)
    limit = np.minimum(due(policy, state), fresh + period)
    return (arrivals.time <= limit[group]) | (rank == 0)


def _within_capacity(capacity: int, state: State, arrivals: Arrivals) -> Bools:
    group = arrivals.group
    room = (capacity - state.held.counts(len(state)))[group]
    # A full group takes in nothing but `next` and voids: all up to the first of these are judged against what stands now.
    moves = _has_next(state, arrivals) & ~state.stopped()[group]
    wanted = moves | (arrivals.weight == 0)
    before = np.cumsum(wanted) - wanted
    at_start = np.zeros(len(state), np.int64)
    starts = np.flatnonzero(first_per_group(group))
    at_start[group[starts]] = before[starts]
    untouched = before == at_start[group]
    return np.where(room > 0, rank_in_group(group) < room, untouched)


def _has_next(state: State, arrivals: Arrivals) -> Bools:
    following = state.groups.next[arrivals.group]
    if arrivals.through is None:
        return arrivals.sequence == following
    return (arrivals.sequence <= following) & (following <= arrivals.through)


def take(policy: Standard, state: State, arrivals: Arrivals) -> tuple[State, Decided, Events]:
    """Judge arrivals between which no timer fires (see `quiet`)."""
    state = _begin(policy, state, arrivals)
    disposition, reason = _judge(policy, state, arrivals)
    judged = reason.copy()
    back = np.zeros(len(arrivals), np.bool_)
    if policy.on_restart == "suspend":
        back = restarts.held_back(policy, state, arrivals, disposition, reason)
        disposition[back] = Disposition.HELD
    late_held = _hold_late(policy, state, arrivals, disposition)
    state = _deliver_late(policy, state, arrivals, disposition, reason)
    _reject(policy, state, arrivals, disposition=disposition, reason=reason, late_held=late_held, back=back)
    cut = None
    if (
        policy.late == "suspend" or policy.on_restart == "suspend"
    ):  # from the first late arrival that is held nothing leaves
        cut = first_rows(late_held | back if policy.late == "suspend" else back, arrivals.group, len(state))

    pending = np.flatnonzero(disposition == Disposition.HELD)
    batch = arrivals.take(pending)
    late = late_held[pending] | back[pending]
    merged = copies.come_from_regions(arrivals)
    bits: Ints | int = batch.bits if merged or isinstance(policy, StandardStays) else 0
    held, position = state.held.with_more(batch.held(bits, late, back[pending]), pending)
    again = repeats(held, position)
    twice = position[again]
    disposition[twice], reason[twice] = Disposition.DUPLICATE, Reason.TAKEN_BEFORE
    late_repeats(state, arrivals, twice, disposition, reason, copies.regions_of(arrivals.bits) > 0 if merged else None)
    held, position = held.take(~again), position[~again]
    if not arrivals.weight.all():
        _late_voids(state, arrivals, disposition, reason, held, position)
    void = (disposition == Disposition.HELD) & (arrivals.weight == 0)
    disposition[void], reason[void] = Disposition.VOID, Reason.LEAVES_NOTHING

    clock = state.groups.clock_after(arrivals.group, arrivals.time)
    before = state.having(state.groups.with_columns(clock=clock), held, state.skipped)

    leaving = np.flatnonzero(disposition == Disposition.RELEASED)
    after, released, passage = release(
        policy, before, position, arrivals, delivered=leaving, why=reason[leaving], cut=cut
    )
    of_arrivals = restarts.Judgement(disposition, judged, back, empty_ints(len(arrivals)))
    decided_events = (
        _compare(policy, state, held, released, arrivals, judged=of_arrivals, reason=reason)
        if reason.any()
        else no_events()
    )
    if merged:
        after = copies.by_number(
            policy, after, arrivals, disposition=disposition, reason=reason, likeness=of_arrivals.likeness, back=back
        )
    if not reason.any():  # as nearly always: nothing but messages that are simply taken in
        decided = Decided.concat([released, passage.covered])
        return after.calmed(released.group), decided, _voids(policy, passage, arrivals)
    after, counted, suspected = restarts.count(policy, state, after, arrivals, of_arrivals, passage)
    aside = np.flatnonzero((disposition != Disposition.HELD) & (disposition != Disposition.RELEASED))
    rest = arrivals.take(aside)
    decided = Decided.of(rest, disposition[aside], reason[aside])
    decided = decided.with_columns(counted=counted[aside])
    events = Events.concat([_voids(policy, passage, arrivals), decided_events, suspected])
    return after, Decided.concat([released, passage.covered, decided]), events


def _voids(policy: Standard, passage: restarts.Passage, arrivals: Arrivals) -> Events:
    """The events of numbers that have passed without a message."""
    at, moment = passage.at, passage.moment
    if at.weight.all():
        return no_events()
    return passed_voids(at, passage.free, moment, _at(arrivals.time, moment), policy.increment)


def _compare(
    policy: Standard,
    state: State,
    held: Held,
    released: Decided,
    arrivals: Arrivals,
    *,
    judged: restarts.Judgement,
    reason: Ints,
) -> Events:
    """Compare messages that come again with those whose numbers they repeat: note their likeness, and conflicts as reasons."""
    again = (judged.disposition == Disposition.DUPLICATE) & (judged.reason != Reason.COVERED)
    repeated = np.flatnonzero(again | judged.back)
    if not len(repeated):
        return no_events()
    judged.likeness[repeated] = compared(state, held, released, arrivals, repeated, policy.remember)
    differs = np.flatnonzero((judged.likeness == Likeness.DIFFERENT) & ~judged.back)
    reason[differs] = Reason.CONFLICTS
    return conflicts(arrivals, differs)


def _begin(policy: Standard, state: State, arrivals: Arrivals) -> State:
    """Mark the groups as begun; with ``start="first"`` they begin at the number of their first valid arrival."""
    groups = state.groups
    flags, columns = groups.flags.copy(), {}
    if policy.start == "first":
        fresh = ~groups.has(Flag.BEGUN | OVER)[arrivals.group] & ~arrivals.overflow(policy.increment)
        if arrivals.through is not None:
            fresh &= (arrivals.through - arrivals.sequence) % policy.increment == 0
        first = put_first(groups.first.copy(), fresh, arrivals.group, arrivals.sequence)
        flags[arrivals.group[fresh]] |= Flag.BEGUN
        begun = flags != groups.flags
        columns = {"first": first, "next": np.where(begun, first, groups.next)}
    else:
        flags[arrivals.group] |= Flag.BEGUN
    return state.with_groups(flags=flags, **columns)


def _judge(policy: Standard, state: State, arrivals: Arrivals) -> tuple[Ints, Ints]:
    """Disposition and reason of each arrival as far as they don't depend on other arrivals; else HELD."""
    groups, group, sequence = state.groups, arrivals.group, arrivals.sequence
    step, first = policy.increment, _firsts(policy, state, arrivals)
    ends = arrivals.ends
    disposition, reason, mark = undecided(arrivals)
    mark(arrivals.overflow(step), Disposition.INVALID, Reason.SEQUENCE_OVERFLOWS)
    if step > 1:
        off = (sequence % step != first % step) | (ends % step != first % step)
        mark(off, Disposition.INVALID, Reason.OFF_STEP)
    if groups.has(OVER).any():
        shut = shut_out(state, arrivals, groups.next[group])
        if copies.come_from_regions(arrivals):
            shut &= ~copies.known_again(state, arrivals, first, restarts.is_held(state, group, sequence, ends))
        mark(shut, Disposition.LATE, Reason.GROUP_CLOSED)
    if state.lives is not None:
        mark(ends <= state.lives.based[group], Disposition.DUPLICATE, Reason.COVERED)
    below = (sequence < first) & (ends < groups.next[group]) if policy.finds_start else ends < first
    if below.any():
        if policy.finds_start:
            opened = isinstance(policy, StandardStays) and policy.opens
            mark(below, Disposition.LATE, Reason.BEFORE_OPENING if opened else Reason.BEFORE_FIRST)
        else:
            mark(below, Disposition.INVALID, Reason.BELOW_START)
    behind = np.flatnonzero((ends < groups.next[group]) & (disposition == Disposition.HELD))
    skipped = state.skipped.touch(group[behind], sequence[behind], ends[behind])
    disposition[behind] = np.where(skipped, Disposition.LATE, Disposition.DUPLICATE)
    reason[behind] = np.where(skipped, Reason.SKIPPED, Reason.TAKEN_BEFORE)
    if len(state.skipped):
        marked = (ends >= groups.next[group]) & state.skipped.cover(group, sequence, ends, step)
        mark(marked, Disposition.DUPLICATE, Reason.TAKEN_BEFORE)
    return disposition, reason


def _firsts(policy: Standard, state: State, arrivals: Arrivals) -> Ints:
    """The first number of each arrival's group. A group that is closed before it began has none."""
    groups, group = state.groups, arrivals.group
    first = groups.first[group]
    return np.where(groups.has(Flag.BEGUN)[group], first, arrivals.sequence) if policy.finds_start else first


def _hold_late(policy: Standard, state: State, arrivals: Arrivals, disposition: Ints) -> Bools:
    """Apply ``late=``, and return the late arrivals that would be held. Delivered late arrivals are marked RELEASED; in a stopped group
    they are held, as with ``late="suspend"``. A late void has nothing to deliver and nothing to decide on.
    """
    held = np.zeros(len(arrivals), np.bool_)
    if policy.late == "set_aside":
        return held
    late = (disposition == Disposition.LATE) & ~state.groups.has(OVER)[arrivals.group] & (arrivals.weight > 0)
    held = late & state.stopped()[arrivals.group] if policy.late == "deliver" else late
    disposition[late & ~held] = Disposition.RELEASED
    disposition[held] = Disposition.HELD
    return held


def _deliver_late(policy: Standard, state: State, arrivals: Arrivals, disposition: Ints, reason: Ints) -> State:
    """Take delivered late numbers out of the skipped ranges; a message that repeats one is a duplicate."""
    rows = np.flatnonzero((disposition == Disposition.RELEASED) & (reason == Reason.SKIPPED))
    if not len(rows):
        return state
    skipped, was_in = state.skipped.without(
        arrivals.group[rows], arrivals.sequence[rows], arrivals.ends[rows], policy.increment, state.groups.next
    )
    again = rows[~was_in]
    disposition[again], reason[again] = Disposition.DUPLICATE, Reason.TAKEN_BEFORE
    return state.having(state.groups, state.held, skipped)


def _late_voids(state: State, arrivals: Arrivals, disposition: Ints, reason: Ints, held: Held, position: Ints) -> None:
    """Late voids that repeat a late message, which was delivered or is held, are duplicates."""
    voids = np.flatnonzero((disposition == Disposition.LATE) & (arrivals.weight == 0) & (reason != Reason.GROUP_CLOSED))
    if not len(voids):
        return
    left = np.flatnonzero((disposition == Disposition.RELEASED) & (reason == Reason.SKIPPED))
    left = left[~state.skipped.contain(arrivals.group[left], arrivals.sequence[left])]
    group = np.concatenate([arrivals.group[left], held.group[held.late]])
    first = np.concatenate([arrivals.sequence[left], held.sequence[held.late]])
    last = np.concatenate([arrivals.ends[left], held.ends[held.late]])
    came = np.concatenate([left, position[held.late]])
    for void in voids.tolist():
        same = (group == arrivals.group[void]) & (first <= arrivals.sequence[void]) & (last >= arrivals.ends[void])
        same &= came < void
        if same.any():
            disposition[void], reason[void] = Disposition.DUPLICATE, Reason.TAKEN_BEFORE


def _reject(
    policy: Standard,
    state: State,
    arrivals: Arrivals,
    *,
    disposition: Ints,
    reason: Ints,
    late_held: Bools,
    back: Bools,
) -> None:
    """Reject messages that full groups would have to hold. `next` is never rejected, a repeated number is a duplicate."""
    if policy.capacity is None:
        return
    full = state.held.counts(len(state)) >= policy.capacity
    rows = np.flatnonzero(full[arrivals.group] & (disposition == Disposition.HELD) & (arrivals.weight > 0))
    if not len(rows):
        return
    group, sequence, late = arrivals.group[rows], arrivals.sequence[rows], late_held[rows]
    ends = arrivals.ends[rows]
    new = np.where(
        late,
        ~restarts.is_held(state, group, sequence, ends, late=True),
        back[rows] | (~_has_next(state, arrivals)[rows] & ~restarts.is_held(state, group, sequence, ends)),
    )
    disposition[rows[new]], reason[rows[new]] = Disposition.REJECTED, Reason.CAPACITY
    late_held[rows[new]] = back[rows[new]] = False


def repeats(held: Held, position: Ints) -> Bools:
    """The arrivals whose numbers a row before them has. Late rows are compared with late rows: a number may be valid again."""
    again = np.zeros(len(held), np.bool_)
    for rows in _kinds(held):
        group, sequence = held.group[rows], held.sequence[rows]
        if held.through is None:
            again[rows[1:]] = (sequence[1:] == sequence[:-1]) & (group[1:] == group[:-1])
        else:
            before = running_latest(group, held.through[rows])[:-1]
            again[rows[1:]] = (before >= held.through[rows][1:]) & (group[1:] == group[:-1]) & (position[rows[1:]] >= 0)
    return again


def _kinds(held: Held) -> list[Ints]:
    """The rows in their turn, and those that are late, if there are any; without those that may not be judged yet."""
    if not held.late.any() and not held.waits.any():
        return [np.arange(len(held))]
    return [np.flatnonzero(~held.late & ~held.waits), np.flatnonzero(held.late & ~held.suspected)]


def release(
    policy: Standard,
    state: State,
    position: Ints,
    arrivals: Arrivals,
    *,
    delivered: Ints | None = None,
    why: Ints | None = None,
    cut: Ints | None = None,
    now: Ints | None = None,
) -> tuple[State, Decided, restarts.Passage]:
    """Release the messages that may leave, and set the clocks of the remaining holes.

    Args:
        state: the state, with arrivals among the held messages.
        position: for each held row its arrival, -1 for rows held before.
        arrivals: the arrivals that the positions refer to.
        delivered: positions of late arrivals that leave at once.
        why: the reasons why they are late.
        cut: for each group the arrival from which on nothing leaves: a late arrival that suspends it.
        now: for each group the time that counts for rows held before (timers, actions).
    """
    groups, held, step = state.groups, state.held, policy.increment
    suspends = np.zeros(len(state), np.bool_) if cut is None else cut < len(arrivals)
    stopped = state.stopped()
    at = taken(state, step)
    group, sequence = at.group, at.sequence
    place = np.append(position, -1)[at.row]  # a marker is before all arrivals

    if held.through is None:
        free = sequence == groups.next[group] + step * sum_before(group, at.span)
    else:
        free = none_so_far(group, at.starts(groups.next, step))
    free &= ~stopped[group]
    moment = running_max(group, place)
    if cut is not None:
        free &= moment < cut[group]
    following = groups.next.copy()
    following[group[free]] = sequence[free] + step * at.span[free]  # ascends: the highest stays

    message = at.weight > 0
    leaves = free & (message if held.through is None else at.messages)
    going, weight = at.row[leaves], at.weight[leaves]
    leaving = Decided.of(
        MessageRows(held.group[going], held.sequence[going], held.ref[going]), Disposition.RELEASED, at.why(held, leaves), moment[leaves],
        fingerprint=held.fingerprint[going], through=None if held.through is None else held.through[going],
    )  # fmt: skip
    if delivered is not None and why is not None and len(delivered):
        late = arrivals.take(delivered)
        flagged = Decided.of(
            late, Disposition.RELEASED, why, delivered, late=True, fingerprint=late.fingerprint, through=late.through
        )
        leaving, weight = Decided.concat([leaving, flagged]), np.concatenate([weight, late.weight])
        order = np.lexsort((leaving.sequence, leaving.cause, leaving.group))
        leaving, weight = leaving.take(order), weight[order]
    ordinal, last_ordinal = groups.ordinals(leaving.group, weight)
    last = groups.last.copy()
    last[leaving.group] = leaving.ends  # the last one written stays: the last that leaves

    waits = ~free & message
    if now is not None:  # a message may have arrived after the timer that released the others
        now_waits = np.maximum(now, held.take(at.row[waits]).first_arrival(len(state)))
    since, reports = _clocks(
        state,
        group[waits],
        place[waits],
        group[free],
        moment[free],
        arrivals=arrivals,
        now=None if now is None else now_waits,
    )
    flags = groups.flags
    if suspends.any():
        flags = np.where(suspends, flags | Flag.SUSPENDED, flags)
    idle = stopped | suspends
    since, reports = np.where(idle, NEVER, since), np.where(idle, 0, reports)

    kept = ~mask_of(len(held), at.row[free & (at.row >= 0)])
    after = state.having(
        groups.with_columns(
            flags=flags,
            first=_first_of(policy, state, at, free),
            next=following,
            last=last,
            ordinal=last_ordinal,
            since=since,
            reports=reports,
        ),
        held.take(kept),
        state.skipped.kept(following) if len(state.skipped) else state.skipped,
    )
    after = after.remembering(Remembered.of(leaving), policy.remember)
    leaving = leaving.with_columns(ordinal=ordinal)
    covered = no_messages()
    if held.through is not None:
        after, covered = _without_left(policy, after, leaving), at.covered(held, free, moment)
    leaving, covered = (_caused(one, arrivals, now) for one in (leaving, covered))
    return after, leaving, restarts.Passage(at, free, moment, covered)


def _first_of(policy: Standard, state: State, at: Taken, free: Bools) -> Ints:
    """The first number of each group after the rows `free` have passed: what one has of lower numbers isn't late when it comes again."""
    held, first = state.held, state.groups.first
    if held.through is None or not policy.finds_start:
        return first
    first, passed = first.copy(), free & (at.row >= 0) & (at.span > 0)
    np.minimum.at(first, at.group[passed], held.sequence[at.row[passed]])
    return first


def _caused(decided: Decided, arrivals: Arrivals, now: Ints | None) -> Decided:
    """With the arrivals that caused it, by their places so far; or with the time, where that did."""
    cause = _at(arrivals.ref, decided.cause) if now is None else now[decided.group]
    return decided.with_columns(cause=cause, timed=np.full(len(decided), now is not None))


def _without_left(policy: Standard, state: State, left: Decided) -> State:
    """What a message that covers several numbers has brought isn't skipped: markers in it, and what an operator has passed over."""
    if not len(state.skipped):
        return state
    wide = np.flatnonzero(left.ends > left.sequence)
    wide = wide[state.skipped.touch(left.group[wide], left.sequence[wide], left.ends[wide])]
    if not len(wide):
        return state
    group, first, last = left.group[wide], left.sequence[wide], left.ends[wide]
    return state.having(skipped=state.skipped.without(group, first, last, policy.increment, state.groups.next)[0])


def _at(values: Ints, positions: Ints) -> Ints:
    return values[np.maximum(positions, 0)] if len(values) else np.zeros(len(positions), np.int64)


def _clocks(
    state: State, waiting: Ints, place: Ints, left: Ints, moment: Ints, *, arrivals: Arrivals, now: Ints | None
) -> tuple[Ints, Ints]:
    """The time when each group's hole opened, and the number of its reports; `NEVER` if there is none. A hole opens at the arrival after
    which messages wait and `next` is missing: the later of the first arrival that waits and the last arrival that released messages; anew
    whenever `next` has moved.
    """
    groups, count = state.groups, len(state)
    none = len(arrivals)
    first_wait = np.full(count, none, np.int64)
    np.minimum.at(first_wait, waiting, place)
    moved = mask_of(count, left) | (now is not None)
    opened = np.maximum(first_wait, by_group(count, -1, left, moment))  # moments ascend within a group
    has_hole = mask_of(count, waiting)
    at = _at(arrivals.time, np.minimum(opened, none - 1))
    if now is not None:
        at = np.where(opened >= 0, at, now)
    fresh = has_hole & (moved | (groups.since == NEVER))
    since = np.where(fresh, at, np.where(has_hole, groups.since, NEVER))
    return since, np.where(has_hole & ~fresh, groups.reports, 0)


def settle(policy: Standard, state: State, now: Ints) -> tuple[State, Decided, Events]:
    """After an operator's action: late messages leave, then others that may, and the clocks of the holes begin anew."""
    state, late = free_late(state, now)
    skipped, _ = state.skipped.without(late.group, late.sequence, late.ends, policy.increment, state.groups.next)
    clock = np.maximum(state.groups.clock, now)
    state = state.remembering(Remembered.of(late), policy.remember).having(skipped=skipped).with_groups(clock=clock)
    before = np.full(len(state.held), -1, np.int64)
    state, released, passage = release(policy, state, before, Arrivals.empty(), now=now)
    state = state.calmed(released.group)
    left = Decided.concat([late, released, passage.covered])
    at = passage.at
    voids = no_events()
    if not at.weight.all():
        voids = passed_voids(at, passage.free, passage.moment, now[at.group], policy.increment)
    return state, left, voids
