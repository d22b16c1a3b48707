"""A turn of a gate. The number of a message is its place at the gate: all results of one place are one arrival.

A closed place without results is an arrival, too. The statement that reads a gate's turn says which places are closed; see
``close_places`` in ``schema/functions/gates/``. Elsewhere in this module, `place` is the index of a group in the turn, as in `Entries`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from seriatim.box.turns.resequence import Turn
from seriatim.box.turns.turn_rows import ARRIVED, Entries, GroupRow, TurnRows, pairs_of
from seriatim.kernel import resequence as kernel
from seriatim.kernel.groups.arrivals import NOT_SAID
from seriatim.kernel.groups.policy import Standard
from seriatim.kernel.groups.state import Held, Ranges, State
from seriatim.kernel.operators import actions
from seriatim.kernel.policies import holes
from seriatim.kernel.values.columns import Bools, Ints, order_by
from seriatim.kernel.values.outcome import Decided, Disposition, Reason
from seriatim.kernel.values.time import NEVER, micros

#: The entry id of a closed place without results: it has no entry.
_NO_ENTRY = -1


class ClosedPlaces(NamedTuple):
    """Closed places without results, as numbers of groups; a group stands here as its index in the turn. `more`: whether a group has more
    closed places, so that it needs another turn. `late`: the pairs of a group and a number whose results leave flagged as late. `full`: the
    groups that have too many places: their origin queue hands out no more of their messages.
    """

    groups: Sequence[int]
    numbers: Sequence[int]
    more: bool
    full: Sequence[str]
    late: frozenset[tuple[int, int]]

    @classmethod
    def of(cls, row: Any) -> ClosedPlaces:
        late = frozenset(zip(row.late_places or (), row.late_numbers or (), strict=True))
        return cls(row.void_places or (), row.void_numbers or (), bool(row.more), row.full_groups or (), late)


class GateTurn(Turn):
    def __init__(self, policy: Standard, rows: TurnRows, closed: ClosedPlaces, now: int, at_most: int) -> None:
        self._closed = closed
        self._skipped_through: Sequence[int | None] = ()
        self._under_way: Sequence[Ints] = ()
        entries = rows.entries
        if len(closed.numbers):
            entries = Entries.concat([entries, _voids(closed, rows.known, rows.keys, now)])
        entries = _in_order(_closed_now(entries, now))
        #: How many messages each first row of a number counts for: itself, and those that follow.
        self._weights = _weights(entries)
        #: Usually each row counts for itself; then nothing has to be spread over the rows of a number.
        self._all_single = bool((self._weights == 1).all())
        self._standard = _of_given_numbers(policy)
        super().__init__(self._standard, rows._replace(entries=entries), now, at_most)
        self._goes_in_parts = False
        self._taken_back: Ints = np.zeros(len(rows.keys), np.int64)

    def _take_back(self, group: Ints, number: Ints) -> None:
        """Also remove closed places without results from the state: they have results now, and are no voids."""
        ahead = number >= self._start.groups.next[group]
        group, number = group[ahead], number[ahead]
        gone = self._start.skipped.contain(group, number)
        np.add.at(self._taken_back, group[gone], 1)
        super()._take_back(group, number)
        # Perhaps no message waits behind a hole now: then the clock of the next hole begins anew.
        self._start = kernel.settle(self._standard, self._start, np.full(len(self._keys), self._now))[0]

    def hole_ends(self, *, due: bool) -> list[int | None] | None:
        """Return for each group the last number of its hole, or None for a group without one; None instead of a list if no group has one.
        `due`: only of holes that are due to be skipped.
        """
        policy, overdue = self._standard, NEVER
        if due:
            if policy.hole_timeout is None or policy.on_hole != "skip":
                return None
            overdue = self._now - micros(policy.hole_timeout) * (policy.hole_retries + 1)
            if not self._held:
                return None  # the clock of a hole begins only when a turn finds that a message waits behind it
        state = self._called(clocked=False).state
        has, _, last = holes.holes(policy, state)
        if due:
            has = has & (state.groups.since <= overdue)
        ends = [end if one else None for one, end in zip(has.tolist(), last.tolist(), strict=True)]
        return ends if any(end is not None for end in ends) else None

    def skip_holes(self, through: Sequence[int | None], under_way: Sequence[Ints]) -> None:
        """Make the turn skip the holes of each group up to a number, before it fires timers. There may be several holes, with held messages
        between them. None: none of this group. `under_way`: for each group the numbers up to there whose results are still on the way.
        """
        self._skipped_through, self._under_way = through, under_way

    def _fired(self, state: State) -> kernel.Outcome:
        if not any(through is not None for through in self._skipped_through):
            return super()._fired(state)
        outcome = kernel.Outcome.unchanged(state)
        for place, (through, under_way) in enumerate(zip(self._skipped_through, self._under_way, strict=True)):
            if through is None:
                continue
            at = np.array([place], np.int64)
            part = outcome.state.select(at)
            done = actions.skip_holes(self._standard, part, self._now, self._keys[place], through, under_way)
            outcome = outcome.then(done.among(outcome.state, at))
        return outcome.then(super()._fired(outcome.state))

    def _taken_in(self, state: State) -> kernel.Outcome:
        """Like `Turn`; but results that ``expect_late`` marked leave flagged as late, and aren't set aside, if their place has passed."""
        if not self._closed.late:
            return super()._taken_in(state)
        group, number = self._entries.place[self._arrived], self._entries.sequence[self._arrived]
        back = (number < state.groups.next[group]) & self._is_late(group, number)
        if not back.any():
            return super()._taken_in(state)
        outcome = kernel.offer(self._policy, state, self._arrivals_in(self._arrived[~back]))
        late = replace(self._standard, late="deliver")
        return outcome.then(kernel.offer(late, outcome.state, self._arrivals_in(self._arrived[back])))

    def _is_late(self, group: Ints, number: Ints) -> Bools:
        pairs = zip(group.tolist(), number.tolist(), strict=True)
        return np.fromiter((pair in self._closed.late for pair in pairs), np.bool_, len(group))

    @property
    def full(self) -> Sequence[str]:
        return self._closed.full

    def _has_more(self, after: State) -> bool:
        return self._closed.more or super()._has_more(after)

    # ---- rows to columns

    def _first_of(self, rows: Ints) -> Ints:
        return rows[self._weights[rows] >= 0]

    def _weight(self, rows: Ints) -> Ints:
        return self._weights[rows]

    def _state(self) -> State:
        """Return the stored state. In it the numbers of arrivals whose places have passed count as skipped, even if results left them."""
        state = super()._state()
        rows = self._rows[self._held :]
        if not len(rows):
            return state
        group, number = self._entries.place[rows], self._entries.sequence[rows]
        behind = (number < state.groups.next[group]) & ~state.skipped.contain(group, number)
        if not behind.any():
            return state
        group, number = group[behind], number[behind]
        skipped = Ranges.concat([state.skipped, Ranges(group, number, number)])
        return state.having(skipped=skipped.take(order_by(skipped.group, skipped.first)))

    # ---- columns to rows

    def _messages(self, decided: Decided) -> tuple[Decided, Ints]:
        rows = self._rows[decided.ref]
        if not self._all_single:
            its, at = self._each(rows)
            decided, rows = decided.take(its), rows[its] + at
            at = np.where(decided.disposition == Disposition.RELEASED, at, 0)
            decided = decided.with_columns(ordinal=decided.ordinal + at)
        passed = (decided.disposition == Disposition.LATE) & (decided.reason == Reason.SKIPPED)
        if passed.any():
            decided = decided.with_columns(reason=np.where(passed, int(Reason.PLACE_PASSED), decided.reason))
        if self._closed.late:
            late = (decided.disposition == Disposition.RELEASED) & self._is_late(decided.group, decided.sequence)
            decided = decided.with_columns(late=decided.late | late)
        return decided, rows

    def _stored(self, held: Held) -> tuple[Held, Ints]:
        held = held.messages()
        rows = self._rows[held.ref]
        if self._all_single:
            return held, rows
        its, at = self._each(rows)
        return held.take(its), rows[its] + at

    def _passed(self, after: State) -> Ranges:
        """Return the ranges with closed places without results that wait for others: they have no entry."""
        voids = after.held.take(after.held.weight == 0)
        if not len(voids):
            return after.skipped
        ranges = Ranges.concat([after.skipped, Ranges(voids.group, voids.sequence, voids.sequence)])
        return ranges.take(order_by(ranges.group, ranges.first))

    def _come_in(self) -> Ints:
        return np.flatnonzero(self._entries.status == ARRIVED)

    def _counted_by(self, decided: Decided, groups: int, kinds: int) -> Ints:
        counts = np.zeros((groups, kinds), np.int64)
        # A closed place without results counts as one void from its arrival on, although it has no row of an entry.
        each = np.where(decided.disposition == Disposition.VOID, 1, self._weights[self._rows[decided.ref]])
        np.add.at(counts, (decided.group, decided.disposition), each)
        counts[:, Disposition.VOID] -= self._taken_back
        return counts

    @property
    def _kinds(self) -> int:
        return int(Disposition.VOID) + 1

    def _each(self, rows: Ints) -> tuple[Ints, Ints]:
        """Return for each message of these rows its index in `rows`, and its distance from the first row of its number."""
        count = self._weights[rows]
        its = np.repeat(np.arange(len(rows)), count)
        return its, np.arange(len(its)) - np.repeat(np.cumsum(count) - count, count)


@lru_cache
def _of_given_numbers(policy: Standard) -> Standard:
    """Return the policy without comparison of messages: the box gives a gate's numbers."""
    return replace(policy, remember=0, restart_after=0)


def _voids(closed: ClosedPlaces, known: Sequence[GroupRow], keys: Sequence[str], now: int) -> Entries:
    """Return the closed places without results as new entries, without those that the groups know already."""
    place, number = np.array(closed.groups, np.int64), np.array(closed.numbers, np.int64)
    new = np.ones(len(place), np.bool_)
    places = {key: at for at, key in enumerate(keys)}
    for row in known:
        for first, last in pairs_of(row.skipped):
            new &= (place != places[row.group_key]) | (number < first) | (number > last)
    place, number = place[new], number[new]
    none, no = np.zeros(len(place), np.int64), np.zeros(len(place), np.bool_)
    return Entries(
        place=place,
        status=np.full(len(place), ARRIVED, np.int64),
        entry_id=np.full(len(place), _NO_ENTRY, np.int64),
        sequence=number,
        size=np.full(len(place), NOT_SAID, np.int64),
        rank=none,
        visible=none,
        arrival=none,
        ordinal=none,
        late=no,
        waits=no,
        time=np.full(len(place), now, np.int64),
    )


def _closed_now(entries: Entries, now: int) -> Entries:
    """Return the entries; arrivals get the present time, unless theirs is later. Results arrive for the kernel when their place is found
    closed, although they may have waited for long: the clock of a hole begins when a closed place waits behind it.
    """
    return entries.with_columns(time=np.where(entries.status == ARRIVED, np.maximum(entries.time, now), entries.time))


def _in_order(entries: Entries) -> Entries:
    """Return the entries by group and status; arrivals also by time and number: all messages of a number together with its last one."""
    has_arrived = entries.status == ARRIVED
    arrived = np.flatnonzero(has_arrived)
    if len(arrived) < 2:
        return entries
    place, number = entries.place[arrived], entries.sequence[arrived]
    alike = order_by(place, number)
    last, here = alike[:-1], alike[1:]
    begins = (place[here] != place[last]) | (number[here] != number[last])
    if not begins.all():
        starts = np.flatnonzero(np.append(True, begins))
        time = entries.time.copy()
        latest = np.maximum.reduceat(time[arrived[alike]], starts)
        time[arrived[alike]] = np.repeat(latest, np.diff(np.append(starts, len(alike))))
        entries = entries.with_columns(time=time)
    moments = np.where(has_arrived, entries.time, 0)
    order = np.lexsort((np.where(has_arrived, entries.sequence, 0), moments, entries.status, entries.place))
    return entries if (order[1:] > order[:-1]).all() else entries.take(order)


def _weights(entries: Entries) -> Ints:
    """Return how many rows each first row of a number stands for, 0 for a place without results; -1 for the other rows."""
    weights = np.ones(len(entries), np.int64)
    columns = (entries.place, entries.status, entries.late, entries.sequence)
    begins = np.logical_or.reduce([one[1:] != one[:-1] for one in columns])
    if not begins.all():
        first = np.flatnonzero(np.append(True, begins))
        weights[:] = -1
        weights[first] = np.diff(np.append(first, len(entries)))
    weights[entries.entry_id == _NO_ENTRY] = 0
    return weights
