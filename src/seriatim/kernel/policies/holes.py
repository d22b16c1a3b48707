"""The holes of `Standard` groups: finding them, their times, and the effect when they are due (rule 5 of the design).

A hole is the run of missing numbers from `next` to the lowest number that is taken, if a message waits behind it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from seriatim.kernel.groups.policy import Standard
from seriatim.kernel.groups.state import Flag, Held, Ranges, Remembered, State
from seriatim.kernel.values.columns import (
    Bools,
    Columns,
    Ints,
    by_group,
    empty_ints,
    expand,
    first_per_group,
    mask_of,
    order_by,
    rank_in_group,
    running_latest,
)
from seriatim.kernel.values.outcome import Decided, Disposition, EventKind, Events, Reason, no_events, no_messages
from seriatim.kernel.values.time import FOREVER, NEVER, micros


@dataclass(frozen=True, slots=True)
class Taken(Columns):
    """The numbers at or above `next` that are taken, sorted by group and number: held ones, and runs of markers. `sequence`: the number, or
    the first of the run; `span`: how many numbers, without those of the rows before it; `weight`: how many messages leave with it; `row`:
    the row among the held messages, -1 for markers. A row without a number is covered by those before it.
    """

    group: Ints
    sequence: Ints
    span: Ints
    weight: Ints
    row: Ints

    @property
    def messages(self) -> Bools:
        found: Bools = (self.weight > 0) & (self.span > 0)
        return found

    def starts(self, following: Ints, step: int) -> Bools:
        """Which rows have a hole before them; `following`: the `next` of each group."""
        found: Bools = self.sequence != np.where(
            first_per_group(self.group), following[self.group], _shifted(self.sequence + self.span * step)
        )
        return found

    def why(self, held: Held, rows: Bools) -> int | Ints:
        """The reason with which rows leave: whether one has numbers that have left before."""
        if held.through is None:
            return int(Reason.NONE)
        return np.where(held.sequence[self.row[rows]] < self.sequence[rows], int(Reason.OVERLAPS), int(Reason.NONE))

    def covered(self, held: Held, passed: Bools, cause: Ints) -> Decided:
        """The messages, among the rows that have passed, whose numbers all belong to rows before them."""
        rows = np.flatnonzero(passed & (self.span == 0) & (self.row >= 0))
        rows = rows[held.weight[self.row[rows]] > 0]
        its = held.take(self.row[rows])
        return Decided.of(its, Disposition.DUPLICATE, Reason.COVERED, cause[rows])


def taken(state: State, step: int) -> Taken:
    """Return the numbers that are taken; `step`: the distance of two numbers."""
    held, skipped = state.held, state.skipped
    rows = np.arange(len(held))
    if len(rows) and (held.late.any() or held.waits.any()):
        rows = rows[~(held.late | held.waits)]
        held = held.take(rows)
    if held.through is None:
        found = Taken(held.group, held.sequence, np.ones(len(rows), np.int64), held.weight, rows)
    else:
        found = Taken(held.group, held.sequence, (held.through - held.sequence) // step + 1, held.weight, rows)
    if len(skipped):
        ahead = skipped.take(skipped.first >= state.groups.next[skipped.group])
        if len(ahead):
            ahead = ahead if held.through is None else _joined(ahead, step)
            none = empty_ints(len(ahead))
            markers = Taken(ahead.group, ahead.first, (ahead.last - ahead.first) // step + 1, none, none - 1)
            found = Taken.concat([markers, found])
            found = found.take(order_by(found.group, found.sequence))
    return found if held.through is None else _disjoint(found, state.groups.next, step)


def _joined(ranges: Ranges, step: int) -> Ranges:
    begins = first_per_group(ranges.group)
    begins[1:] |= ranges.first[1:] != ranges.last[:-1] + step
    heads = np.flatnonzero(begins)
    return Ranges(ranges.group[heads], ranges.first[heads], ranges.last[np.append(heads[1:], len(ranges)) - 1])


def _disjoint(at: Taken, following: Ints, step: int) -> Taken:
    """Leave to each row the numbers that no row before it has; `following`: the `next` of each group."""
    if not len(at):
        return at
    beyond = at.sequence + at.span * step
    latest = running_latest(at.group, np.maximum(beyond, following[at.group]))
    reached = np.where(first_per_group(at.group), following[at.group], _shifted(latest))
    first = np.maximum(at.sequence, reached)
    span = np.maximum(beyond - first, 0) // step
    return at.with_columns(sequence=first, span=span)


def _shifted(values: Ints) -> Ints:
    """Each value in the next row; the first row has its own."""
    return np.concatenate([values[:1], values[:-1]])


def due(policy: Standard, state: State) -> Ints:
    """The time when each group's next report is due; `FOREVER` if no clock runs."""
    groups = state.groups
    if policy.hole_timeout is None:
        return np.full(len(state), FOREVER, np.int64)
    running = (groups.since != NEVER) & (groups.reports <= policy.hole_retries)
    return np.where(running, groups.since + (groups.reports + 1) * micros(policy.hole_timeout), FOREVER)


def fire(policy: Standard, state: State, until: Ints) -> tuple[State, Decided, Events]:
    """Fire the timers that are due at or before `until` (a time for each group). One call has the same effect as any number of smaller
    calls.
    """
    groups = state.groups
    late = due(policy, state) <= until
    if not late.any():
        return state, no_messages(), no_events()
    timeout, total = micros(policy.hole_timeout or 0), policy.hole_retries + 1
    if policy.on_hole == "wait":
        elapsed = np.where(late, until - np.where(late, groups.since, 0), 0)
        return _report(policy, state, np.where(late, np.minimum(elapsed // timeout, total), groups.reports), timeout)
    return _skip(policy, state, late, until, timeout, total)


def _report(policy: Standard, state: State, reports: Ints, timeout: int) -> tuple[State, Decided, Events]:
    """Report overdue holes that aren't skipped automatically; with the last report the group is timed out."""
    groups = state.groups
    rows, nth = expand(np.maximum(reports - groups.reports, 0))
    _, first, last = holes(policy, state)
    at = groups.since[rows] + (groups.reports[rows] + nth + 1) * timeout
    overdue = Events.of(EventKind.HOLE_OVERDUE, rows, first[rows], last[rows], at)
    done = (reports > policy.hole_retries) & (reports > groups.reports)
    ended = np.flatnonzero(done)
    timed_out = Events.of(
        EventKind.TIMED_OUT, ended, first[ended], last[ended], groups.since[ended] + reports[ended] * timeout
    )
    clock = np.where(reports > groups.reports, np.maximum(groups.clock, groups.since + reports * timeout), groups.clock)
    return state.with_groups(reports=reports, clock=clock), no_messages(), Events.concat([overdue, timed_out])


def _skip(
    policy: Standard, state: State, late: Bools, until: Ints, timeout: int, total: int
) -> tuple[State, Decided, Events]:
    """Skip holes whose last report is due, as many in each group as fit into the time that has passed."""
    groups, held, step = state.groups, state.held, policy.increment
    period = timeout * total
    at = _waiting(taken(state, step), step)
    beyond, starts = at.sequence + at.span * step, _run_starts(at, step)
    run = np.cumsum(starts) - 1
    heads = np.flatnonzero(starts)
    owner = at.group[heads]
    nth = rank_in_group(owner)  # hole 0, 1, 2 … of its group lies before run 0, 1, 2 …
    tails = np.append(heads[1:], len(at)) - 1
    before = np.where(nth == 0, groups.next[owner], beyond[tails[np.maximum(np.arange(len(heads)) - 1, 0)]])
    end = at.sequence[heads] - step

    time = np.where(at.weight > 0, np.append(held.time, FOREVER)[at.row], FOREVER)
    opens = _opening_times(state, time, run, owner, nth, period)
    is_gone = late[owner] & (opens <= until[owner] - period)
    runs, skips = (np.bincount(rows, minlength=len(state)) for rows in (owner, owner[is_gone]))
    when = opens + period
    next_open, last_skip = np.full(len(state), NEVER, np.int64), groups.since.copy()
    following, final = nth == skips[owner], nth == skips[owner] - 1
    next_open[owner[following]], last_skip[owner[final]] = opens[following], when[final]

    passing = is_gone[run] if len(at) else np.zeros(0, np.bool_)
    leaves = passing & at.messages
    leaving = held.take(at.row[leaves])
    ordinal, last_ordinal = groups.ordinals(leaving.group, at.weight[leaves])
    released = Decided.of(
        leaving, Disposition.RELEASED, at.why(held, leaves), when[run[leaves]], ordinal=ordinal, timed=True,
        fingerprint=leaving.fingerprint,
    )  # fmt: skip
    moved, remain = skips > 0, runs > skips
    since = np.where(moved, next_open, groups.since)
    elapsed = np.where(late & remain, until - np.where(remain, since, 0), 0)
    reports = np.where(late & remain, np.maximum(elapsed, 0) // timeout, np.where(moved, 0, groups.reports))
    last, next_ = groups.last.copy(), groups.next.copy()
    last[leaving.group] = leaving.ends
    next_[at.group[passing]] = beyond[passing]  # ascends: the highest stays
    fired = np.where(remain, since + reports * timeout, last_skip)
    kept = ~mask_of(len(held), at.row[passing & (at.row >= 0)])
    after = state.having(
        groups.with_columns(
            next=next_,
            last=last,
            ordinal=last_ordinal,
            since=since,
            reports=reports,
            clock=np.where(late, np.maximum(groups.clock, fired), groups.clock),
        ),
        held.take(kept),
        state.skipped.add(Ranges(owner[is_gone], before[is_gone], end[is_gone]), next_),
    )
    after = after.calmed(leaving.group).remembering(Remembered.of(leaving), policy.remember)
    if held.through is not None:
        covered = at.covered(held, passing, when[run])
        released = Decided.concat([released, covered.with_columns(timed=np.ones(len(covered), np.bool_))])
    already = np.where(nth == 0, groups.reports[owner], 0)
    reported = np.where(is_gone, total, np.where(following, reports[owner], 0)) - already
    reported = np.where(late[owner], np.maximum(reported, 0), 0)
    rows, k = expand(reported)
    overdue = Events.of(
        EventKind.HOLE_OVERDUE, owner[rows], before[rows], end[rows], opens[rows] + (already[rows] + k + 1) * timeout
    )
    voids = passed_voids(at, passing, run, when[run], step)
    skipped = Events.of(EventKind.HOLE_SKIPPED, owner[is_gone], before[is_gone], end[is_gone], when[is_gone])
    opened = (nth > 0) & (nth <= skips[owner])
    opening = Events.of(EventKind.HOLE_OPENED, owner[opened], before[opened], end[opened], opens[opened])
    return after, released, Events.concat([overdue, skipped, voids, opening])


def passed_voids(at: Taken, passed: Bools, cause: Ints, time: Ints, step: int) -> Events:
    """The events of numbers that have passed without a message: voids and markers, a run of them for one cause as one event. `at`: the
    numbers that are taken. `passed`: which of them have passed. `cause`: what let each pass, as a number. `time`: when each passed. `step`:
    from one number to the next.
    """
    if at.weight.all():
        return no_events()
    rows = np.flatnonzero(passed & (at.weight == 0) & (at.span > 0))
    group, first, cause = at.group[rows], at.sequence[rows], cause[rows]
    last = first + (at.span[rows] - 1) * step
    begins = first_per_group(group)
    begins[1:] |= (first[1:] != last[:-1] + step) | (cause[1:] != cause[:-1])
    heads = np.flatnonzero(begins)
    ends = np.append(heads[1:], len(rows))[: len(heads)] - 1
    first, last = first[heads], last[ends]
    return Events.of(EventKind.VOID, group[heads], first, last, time[rows][heads], count=(last - first) // step + 1)


def _run_starts(at: Taken, step: int) -> Bools:
    starts = first_per_group(at.group)
    starts[1:] |= at.sequence[1:] != at.sequence[:-1] + at.span[:-1] * step
    return starts


def _waiting(at: Taken, step: int) -> Taken:
    """Return the runs up to the last one with a message: nothing waits behind a hole that only voids and markers follow."""
    messages = at.weight > 0
    if messages.all():
        return at
    run = np.cumsum(_run_starts(at, step)) - 1
    last = by_group(int(at.group[-1]) + 1, -1, at.group[messages], run[messages])  # ascends: the highest stays
    return at.take(run <= last[at.group])


def _opening_times(state: State, time: Ints, run: Ints, owner: Ints, nth: Ints, period: int) -> Ints:
    """For each run of taken numbers the time when the hole before it opens, if those before it are skipped in time. The first hole is open.
    Each further one opens when the hole before it is skipped, a period after that has opened, or with the first arrival behind it,
    whichever is later.
    """
    since = state.groups.since[owner]
    if not len(owner):
        return since
    first = np.full(len(owner), FOREVER, np.int64)
    np.minimum.at(first, run, time)
    # The first arrival in this run or a later one of the group: computed from the end, with the signs turned.
    behind = -running_latest(owner[-1] - owner[::-1], -first[::-1])[::-1]
    begins = np.where(nth == 0, since, np.maximum(since, behind))
    # Bounded, so that the product doesn't overflow: a time beyond the bound is never due.
    passed = np.minimum(nth, FOREVER // period) * period
    return running_latest(owner, begins - passed) + passed


def holes(policy: Standard, state: State) -> tuple[Bools, Ints, Ints]:
    """The groups with a hole, and its first and last number."""
    at = taken(state, policy.increment)
    rows = np.flatnonzero(first_per_group(at.group)) if len(at) else empty_ints()
    last = by_group(len(state), 0, at.group[rows], at.sequence[rows] - policy.increment)
    first = state.groups.next
    has = mask_of(len(state), at.group[rows]) & (last >= first) & (state.groups.since != NEVER)
    if policy.finds_start:
        has &= state.groups.has(Flag.BEGUN)  # else it is found out where the group begins
    return has, first, last


def events_between(policy: Standard, before: State, after: State) -> Events:
    """The events of a call: a hole is filled if its `next` has moved, and opened if it is new. A hole that is filled names the numbers that
    came: those of the hole that `next` has passed.
    """
    was, was_first, was_last = holes(policy, before)
    is_, is_first, is_last = holes(policy, after)
    goes_on, told = np.ones(len(before), np.bool_), np.zeros(len(before), np.bool_)
    if after.lives is not None:  # what ends with a life is told as skipped, and what a base has as covered
        goes_on = after.lives.life == before.known_lives.life
        told = ~goes_on | (after.lives.based >= was_first)
    same = was & is_ & (was_first == is_first) & goes_on
    filled = np.flatnonzero(was & ~same & ~told & (after.groups.next > was_first))
    opened = np.flatnonzero(is_ & ~same)
    clock = after.groups.clock
    moved = np.minimum(was_last, after.groups.next - policy.increment)
    return Events.concat(
        [
            Events.of(
                EventKind.HOLE_FILLED,
                filled,
                was_first[filled],
                moved[filled],
                clock[filled],
                kept=before.groups.reports[filled] > 0,
            ),
            Events.of(EventKind.HOLE_OPENED, opened, is_first[opened], is_last[opened], after.groups.since[opened]),
        ]
    )
