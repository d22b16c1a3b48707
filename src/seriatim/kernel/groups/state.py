"""The state of the groups of one queue, as columns.

This module owns the layout, and splits and joins states; the rules that read and write it are
in the module of each policy. A group is named by its row number here; the engine knows its key.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import IntFlag
from operator import itemgetter
from typing import Any, ClassVar, TypeVar

import numpy as np

from seriatim.kernel.values.columns import (
    Bools,
    Columns,
    Ints,
    Numbered,
    by_group,
    empty_ints,
    last_per_group,
    mask_of,
    order_by,
    order_by_group,
    search_within,
    spans,
    sum_before,
    sum_per_group,
)
from seriatim.kernel.values.outcome import Decided
from seriatim.kernel.values.time import FOREVER, NEVER

#: No number yet: below every sequence.
NOTHING = -(2**63)


class Flag(IntFlag):
    BEGUN = 1
    CLOSED = 2
    #: While `CLOSED`: it has ended by itself, and its released messages are still handed out. Its set was complete (`UnitOfWork`), or
    #: it was to close and holds nothing any more.
    COMPLETE = 4
    SUSPENDED = 8
    FAULTED = 16
    FIXED = 32
    #: A part of a long run has left a `Standard` group, and the rest may follow; in engines that split runs.
    LEAVING = 64
    #: While `SUSPENDED`: an operator has suspended it, and no message.
    BY_OPERATOR = 128
    #: It is to close, and becomes `CLOSED` when it holds nothing any more: see ``closing.py``.
    CLOSING = 256
    #: It waits for a message that opens it: see ``stays.py``.
    UNOPENED = 512
    #: While `COMPLETE`: the time of its set was over, and what there was of it has left.
    PARTIAL = 1024


#: The flags with which nothing leaves.
STOPPING = int(Flag.CLOSED | Flag.SUSPENDED | Flag.FAULTED)


@dataclass(frozen=True, slots=True)
class Groups(Columns):
    """The groups, a row for each.

    * `flags`: see `Flag`.
    * `first`: `Standard`: the group's first number.
    * `next`: `Standard`: the number that leaves next. `BestEffort`: the highest sequence released in an earlier
      round; messages below it are late.
    * `mark`: `BestEffort`: the highest sequence of the round, once `FIXED`. `UnitOfWork`: the size, 0 while unknown.
      `Standard`: the time since which the run has been leaving, while `LEAVING`. Where messages open groups: how often the group has
      begun again.
    * `last`: the last sequence that left, `NOTHING` before.
    * `ordinal`: the number of messages that have left: the sum of their weights.
    * `since`: the begin of the running clock (hole, round or set), `NEVER` if none runs.
    * `reports`: `Standard`: the number of reports that the hole is overdue.
    * `clock`: the latest time that this group has seen.
    * `suspects`: `Standard`: how many arrivals below `next` count as messages of a producer that has begun anew, since a message
      left in its turn.
    * `suspect`: the number of the last of them, `NOTHING` before.
    """

    flags: Ints
    first: Ints
    next: Ints
    mark: Ints
    last: Ints
    ordinal: Ints
    since: Ints
    reports: Ints
    clock: Ints
    suspects: Ints
    suspect: Ints

    def ordinals(self, group: Ints, weight: Ints) -> tuple[Ints, Ints]:
        """The ordinals of messages that leave now, in order, and those of all groups after them."""
        after = self.ordinal + sum_per_group(group, weight, len(self))
        return self.ordinal[group] + sum_before(group, weight) + 1, after

    def clock_after(self, group: Ints, time: Ints) -> Ints:
        """The clock of each group after messages came at some times, which ascend in each group; the rows are sorted by group."""
        clock, ends = self.clock.copy(), last_per_group(group)
        clock[group[ends]] = np.maximum(clock[group[ends]], time[ends])
        return clock

    def has(self, flag: int) -> Bools:
        return (self.flags & int(flag)) != 0  # NumPy takes three times as long over a member of an enumeration


@dataclass(frozen=True, slots=True)
class Held(Numbered):
    """Messages that arrived and aren't decided, sorted by group and sequence, with equal sequences in order of arrival. `ref` is the
    engine's name for the message and ascends in order of arrival. `late`: held by ``late="suspend"``. `waits`: it came after its round was
    fixed and belongs to the next round (`BestEffort`); its producer seems to have begun anew, if it is late, too (`Standard`, see
    `suspected`); or it waits for the opening of its group (see `aside`). `time`: when it arrived, microseconds; `NEVER` stands for a
    message that arrived before every timer that may still fire. `weight`: how many messages leave with it; of weight 0 are the places of
    voids, which are no messages and in no count. `fingerprint`: that of its content, 0: unknown. `bits`: whether it opens its group, or
    closes it, see ``stays.py``; its region, see ``copies.py``; and what its number means, see ``numbers.py``. `through`: the last number
    that it covers; None: each covers its own alone. `epoch`: its epoch.
    """

    group: Ints
    sequence: Ints
    ref: Ints
    late: Bools
    waits: Bools
    time: Ints
    weight: Ints
    fingerprint: Ints
    bits: Ints
    through: Ints | None = None
    epoch: Ints | None = None

    @classmethod
    def empty(cls) -> Held:
        none = empty_ints()
        return cls(none, none, none, np.zeros(0, np.bool_), np.zeros(0, np.bool_), none, none, none, none)

    @property
    def suspected(self) -> Bools:
        """The rows of a `Standard` queue that are held because of a suspected restart of their producer."""
        return self.late & self.waits

    @property
    def aside(self) -> Bools:
        """The rows that may not be judged yet: see ``stays.py`` and ``numbers.py``."""
        return self.waits & ~self.late

    def with_more(self, more: Held, rows: Ints) -> tuple[Held, Ints]:
        """These and further messages, in order; and for each its row in `rows`, -1 if it isn't a further one."""
        held, row = Held.concat([self, more]), np.concatenate([np.full(len(self), -1, np.int64), rows])
        order = order_by(held.group, held.sequence)
        return held.take(order), row[order]

    def by_arrival(self) -> Held:
        return self.take(np.lexsort((self.ref, self.group)))

    def messages(self) -> Held:
        return self if self.weight.all() else self.take(self.weight > 0)

    def counts(self, groups: int) -> Ints:
        return np.bincount(self.group if self.weight.all() else self.group[self.weight > 0], minlength=groups)

    def first_arrival(self, groups: int) -> Ints:
        """For each group the time when the first of its messages arrived; `NEVER` if there is none."""
        first = by_group(groups, NEVER, self.group, FOREVER)
        np.minimum.at(first, self.group, self.time)
        return first


@dataclass(frozen=True, slots=True)
class Ranges(Columns):
    """Runs of numbers that were skipped, `first`..`last`, disjoint, sorted by group and number. Numbers at or above the group's `next` are
    those of messages that were held and taken out: markers, which are passed when it is their turn, and count as skipped then.
    """

    group: Ints
    first: Ints
    last: Ints

    #: How many below `next` are remembered of each group.
    KEPT: ClassVar[int] = 64

    def contain(self, group: Ints, sequence: Ints) -> Bools:
        return self.touch(group, sequence, sequence)

    def touch(self, group: Ints, first: Ints, last: Ints) -> Bools:
        """The runs of numbers of which one at least lies in a range of their group."""
        if not len(self) or not len(group):
            return np.zeros(len(group), np.bool_)
        starts, ends = np.searchsorted(self.group, group), np.searchsorted(self.group, group, side="right")
        at = search_within(self.last, starts, ends, first)
        found = at < ends
        found[found] = self.first[at[found]] <= last[found]
        return found

    def cover(self, group: Ints, first: Ints, last: Ints, step: int) -> Bools:
        """The runs of numbers of which each lies in a range of their group."""
        if first is last:
            return self.contain(group, first)
        whole = np.zeros(len(group), np.bool_)
        for row in np.flatnonzero(self.contain(group, first) & self.contain(group, last)).tolist():
            mine = (self.group == group[row]) & (self.last >= first[row]) & (self.first <= last[row])
            its = np.minimum(self.last[mine], last[row]) - np.maximum(self.first[mine], first[row])
            whole[row] = int((its // step + 1).sum()) == int(last[row] - first[row]) // step + 1
        return whole

    def add(self, more: Ranges, following: Ints) -> Ranges:
        """Add further ranges; `following`: the `next` of each group, see `kept`."""
        if not len(more):
            return self
        both = Ranges.concat([self, more])
        return both.take(order_by(both.group, both.first)).kept(following)

    def kept(self, following: Ints) -> Ranges:
        """The last ranges of each group below its next number, and all above it."""
        return _last_of(self, np.flatnonzero(self.first < following[self.group]))

    def put_back(self, group: Ints, numbers: Ints, step: int) -> Ranges:
        """Return the ranges without some numbers of their groups, which are on the step; a range may be cut in several."""
        hit = self.contain(group, numbers)
        if not hit.any():
            return self
        pairs = np.unique(np.stack([group[hit], numbers[hit]]), axis=1)
        groups = np.concatenate([self.group, pairs[0]])
        first, last = np.concatenate([self.first, pairs[1] + step]), np.concatenate([self.last, pairs[1] - step])
        by_first, by_last = order_by(groups, first), order_by(groups, last)
        rest = Ranges(groups[by_first], first[by_first], last[by_last])
        return rest.take(rest.first <= rest.last)

    def without(self, group: Ints, first: Ints, last: Ints, step: int, following: Ints) -> tuple[Ranges, Bools]:
        """Take runs of numbers out of their groups' ranges, one after another. What lies in the middle of a range cuts the range in two. If
        the group has as many ranges below `next` as are remembered, it stays in its range. `group`: the group of each run. `first`: the
        first number of each run. `last`: the last. `step`: the distance of two numbers. `following`: the `next` of each group. Returns the
        remaining ranges, and a mask of the runs of which a number was in a range when their turn came.
        """
        was_in = np.zeros(len(group), np.bool_)
        if not len(self) or not len(group):
            return self, was_in
        touched = np.unique(group)
        is_touched = np.isin(self.group, touched)
        ranges: dict[int, list[tuple[int, int]]] = {group_row: [] for group_row in touched.tolist()}
        for group_row, low, high in zip(*self.take(is_touched).lists(), strict=True):
            ranges[group_row].append((low, high))
        runs = zip(group.tolist(), first.tolist(), last.tolist(), strict=True)
        for place, (group_row, begin, end) in enumerate(runs):
            spans = ranges[group_row]
            at = bisect_left(spans, begin, key=itemgetter(1))
            while at < len(spans) and spans[at][0] <= end:
                was_in[place] = True
                low, high = spans[at]
                pieces = [(low, begin - step)] * (low < begin) + [(end + step, high)] * (end < high)
                behind = bisect_left(spans, int(following[group_row]), key=itemgetter(0))
                if behind - 1 + len(pieces) <= self.KEPT:
                    spans[at : at + 1] = pieces
                    at += len(pieces)
                else:
                    at += 1
        rows = [(group_row, *span) for group_row, spans in ranges.items() for span in spans]
        cut = Ranges(*np.array(rows, np.int64).reshape(-1, 3).T)
        both = Ranges.concat([self.take(~is_touched), cut])
        return both.take(order_by(both.group, both.first)), was_in

    def with_run(self, first: int, last: int, step: int) -> Ranges:
        """The ranges of one group with a further run, which may share numbers with them."""
        apart = (self.first > last) | (self.last < first)
        shared = self.take(~apart)
        first = min([first, *shared.first.tolist()])
        last = max([last, *shared.last.tolist()])
        run = Ranges(empty_ints(1), np.array([first]), np.array([last]))
        rest = Ranges.concat([self.take(apart), run])
        return rest.take(order_by(rest.group, rest.first))

    def below(self, group: int, number: int) -> Ranges:
        """The ranges, with one group's ranges cut off at a number; other groups' ranges are untouched."""
        of_group = self.group == group
        kept = self.take(~of_group | (self.first < number))
        of_group = kept.group == group
        return kept.with_columns(last=np.where(of_group, np.minimum(kept.last, number - 1), kept.last))


@dataclass(frozen=True, slots=True)
class Remembered(Numbered):
    """The last released messages of the groups, sorted by group, in the order in which they left, with their fingerprints."""

    group: Ints
    sequence: Ints
    fingerprint: Ints
    through: Ints | None = None

    @classmethod
    def empty(cls) -> Remembered:
        none = empty_ints()
        return cls(none, none, none)

    @classmethod
    def of(cls, left: Decided | Held) -> Remembered:
        return cls(left.group, left.sequence, left.fingerprint, left.through)

    def and_last(self, more: Remembered, count: int, groups: int) -> Remembered:
        """Return the last `count` of each group, after further ones have left."""
        both = Remembered.concat([self, more])
        if groups == 1:
            return both.take(slice(-count, None))  # type: ignore[arg-type]
        both = both.take(order_by_group(both.group))
        _, ends = spans(both.group, groups)
        return both.take(ends[both.group] - np.arange(len(both)) <= count)


@dataclass(frozen=True, slots=True)
class Sights(Columns):
    """What regions have shown of the groups, sorted by group and number; see ``copies.py``. `Standard`: runs of numbers, `first`..`last`,
    disjoint, that were taken in and that one region only has shown; numbers that aren't here both have shown, or nothing is known of them.
    `FifoMerged`: the ids of messages, `first` = `last`, with the `time` of the first sight. `regions`: as bits.
    """

    group: Ints
    first: Ints
    last: Ints
    regions: Ints
    time: Ints

    #: How many runs below `next` are kept of each group.
    KEPT: ClassVar[int] = 1024

    @property
    def sequence(self) -> Ints:
        return self.first

    @classmethod
    def empty(cls) -> Sights:
        none = empty_ints()
        return cls(none, none, none, none, none)

    @classmethod
    def of_numbers(cls, group: Ints, number: Ints, regions: Ints) -> Sights:
        return cls(group, number, number, regions, empty_ints(len(group)))

    @classmethod
    def of_identities(cls, group: Ints, identity: Ints, regions: Ints, time: Ints) -> Sights:
        return cls(group, identity, identity, regions, time)

    def place_of(self, groups: int, group: Ints, number: Ints) -> Ints:
        """The row of the run that has each number, -1 if none has it."""
        if not len(self) or not len(group):
            return np.full(len(group), -1, np.int64)
        starts, ends = spans(self.group, groups)
        at = search_within(self.last, starts[group], ends[group], number)
        place = at < ends[group]
        place[place] = self.first[at[place]] <= number[place]
        return np.where(place, at, -1)

    def without(self, groups: int, group: Ints, number: Ints, step: int) -> Sights:
        """Take numbers out of their runs; they are sorted, each once."""
        at = self.place_of(groups, group, number)
        hit = at >= 0
        if not hit.any():
            return self
        row, number = at[hit], number[hit]
        rows = np.arange(len(self))
        begin, whose = np.concatenate([self.first, number + step]), np.concatenate([rows, row])
        end = np.concatenate([self.last, number - step])
        # Of a run the pieces' begins and ends, each in order, belong together.
        order = np.lexsort((begin, whose))
        pieces = self.take(whose[order]).with_columns(first=begin[order], last=end[np.lexsort((end, whose))])
        return pieces.take(pieces.first <= pieces.last)

    def joined(self, more: Sights, step: int) -> Sights:
        """Add runs of other numbers; adjoining runs become one."""
        if not len(more):
            return self
        both = Sights.concat([self, more])
        both = both.take(order_by(both.group, both.first))
        begins = np.ones(len(both), np.bool_)
        begins[1:] = (both.group[1:] != both.group[:-1]) | (both.regions[1:] != both.regions[:-1])
        begins[1:] |= both.first[1:] != both.last[:-1] + step
        starts = np.flatnonzero(begins)
        ends = np.append(starts[1:], len(both)) - 1
        return both.take(starts).with_columns(last=both.last[ends])

    def kept(self, following: Ints) -> Sights:
        """The last runs of each group below its next number, and all above it."""
        return _last_of(self, np.flatnonzero(self.last < following[self.group]))


@dataclass(frozen=True, slots=True)
class Lives(Columns):
    """What is known of the present life of each group, a row for each; see ``numbers.py``.

    * `life`: how often its numbers have begun anew.
    * `epoch`: its epoch, and `ended`: the one before; `NOTHING` if there is none.
    * `top`: the highest number that it has taken in, where numbers turn over; `NOTHING` before.
    * `based`: the number of the last base; `NOTHING` before.
    * `marker`: the fingerprint of the message with which it began; 0: unknown, or there is none.
    """

    life: Ints
    epoch: Ints
    ended: Ints
    top: Ints
    based: Ints
    marker: Ints

    @classmethod
    def new(cls, groups: int) -> Lives:
        nothing, none = np.full(groups, NOTHING, np.int64), empty_ints(groups)
        return cls(none, nothing, nothing, nothing, nothing, none)


Rows = TypeVar("Rows", Held, Ranges, Remembered, Sights)
Runs = TypeVar("Runs", Ranges, Sights)

_NO_RANGES = Ranges(empty_ints(), empty_ints(), empty_ints())


@dataclass(frozen=True, slots=True)
class State:
    """The groups of one queue, their held messages, their skipped numbers, the last messages that left, and what regions have shown.
    `lives` and `ended` (what was skipped in the epoch before) are for numbers as producers have them; `lives` is None where numbers are
    plain.
    """

    groups: Groups
    held: Held
    skipped: Ranges
    remembered: Remembered
    sights: Sights = field(default_factory=Sights.empty)
    lives: Lives | None = None
    ended: Ranges = field(default_factory=lambda: _NO_RANGES)

    @classmethod
    def new(cls, groups: int, *, first: Ints | int = 0, size: int = 0, flags: int = 0) -> State:
        """New groups; `first` is their first number, `size` the size of their sets."""
        numbers = np.full(groups, first, np.int64) if isinstance(first, int) else first
        none = empty_ints(groups)
        return cls(
            Groups(
                flags=np.full(groups, flags, np.int64),
                first=numbers,
                next=numbers,
                mark=np.full(groups, size, np.int64),
                last=np.full(groups, NOTHING, np.int64),
                ordinal=none,
                since=np.full(groups, NEVER, np.int64),
                reports=none,
                clock=np.full(groups, NEVER, np.int64),
                suspects=none,
                suspect=np.full(groups, NOTHING, np.int64),
            ),
            Held.empty(),
            Ranges(empty_ints(), empty_ints(), empty_ints()),
            Remembered.empty(),
        )

    def __len__(self) -> int:
        return len(self.groups)

    def with_groups(self, **columns: Ints) -> State:
        return self.having(self.groups.with_columns(**columns))

    def having(self, groups: Groups | None = None, held: Held | None = None, skipped: Ranges | None = None) -> State:
        return State(
            self.groups if groups is None else groups,
            self.held if held is None else held,
            self.skipped if skipped is None else skipped,
            self.remembered,
            self.sights,
            self.lives,
            self.ended,
        )

    def remembering(self, more: Remembered, count: int | None) -> State:
        """The state after messages have left, in this order; `count`: how many of each group are remembered."""
        if not count:
            return replace(self, remembered=Remembered.empty()) if len(self.remembered) else self
        return replace(self, remembered=self.remembered.and_last(more, count, len(self))) if len(more) else self

    def with_sights(self, sights: Sights) -> State:
        return replace(self, sights=sights)

    def with_lives(self, **columns: Ints) -> State:
        return replace(self, lives=self.known_lives.with_columns(**columns))

    @property
    def known_lives(self) -> Lives:
        """Its lives, where numbers aren't plain."""
        return Lives.new(len(self)) if self.lives is None else self.lives

    def calmed(self, left: Ints) -> State:
        """Return the state after messages of the groups `left` have left in their turn: no restart of a producer is suspected."""
        if not len(left) or not self.groups.suspects.any():
            return self
        suspects = self.groups.suspects.copy()
        suspects[left] = 0
        return self.with_groups(suspects=suspects)

    def stopped(self) -> Bools:
        return self.groups.has(STOPPING)

    def select(self, rows: Ints) -> State:
        """The state of some groups, renumbered from 0 in the order of `rows`, which ascend."""
        new = by_group(len(self.groups), -1, rows, np.arange(len(rows)))
        lives = None if self.lives is None else self.lives.take(rows)
        return State._of(self.groups.take(rows), lives, (_among(one, new[one.group]) for one in self._tables()))

    def replace(self, rows: Ints, part: State) -> State:
        """Replace the state of some groups by the changed result of `select` for the same `rows`."""
        replaced = mask_of(len(self.groups), rows)
        lives = None if self.lives is None else self.lives.put(rows, part.known_lives)
        pairs = zip(self._tables(), part._tables(), strict=True)
        tables = (_merge(old, replaced, new, rows) for old, new in pairs)
        return State._of(self.groups.put(rows, part.groups), lives, tables)

    def append(self, more: State) -> State:
        return State.join([self, more])

    @classmethod
    def join(cls, parts: Sequence[State]) -> State:
        """The groups of all parts, renumbered in that order."""
        offsets = np.cumsum([0] + [len(part) for part in parts]).tolist()
        lives = (
            None if all(part.lives is None for part in parts) else Lives.concat([part.known_lives for part in parts])
        )
        tables = zip(*map(State._tables, parts), strict=True)
        return cls._of(Groups.concat([part.groups for part in parts]), lives, (_joined(one, offsets) for one in tables))

    def split(self) -> list[State]:
        edges = [(table, *spans(table.group, len(self))) for table in self._tables()]
        rows = [np.arange(row, row + 1) for row in range(len(self))]
        return [
            State._of(
                self.groups.take(row),
                None if self.lives is None else self.lives.take(row),
                (_alone(table, starts[row[0]], ends[row[0]]) for table, starts, ends in edges),
            )
            for row in rows
        ]

    def _tables(self) -> tuple[Any, ...]:
        """What its groups have several rows of."""
        return self.held, self.skipped, self.remembered, self.sights, self.ended

    @classmethod
    def _of(cls, groups: Groups, lives: Lives | None, tables: Iterable[Any]) -> State:
        """A state of tables in the order of `_tables`."""
        held, skipped, remembered, sights, ended = tables
        return cls(groups, held, skipped, remembered, sights, lives, ended)


def _last_of(table: Runs, behind: Ints) -> Runs:
    """Return the table with the last `KEPT` of each group among some rows, which ascend, and all others."""
    if len(behind) <= table.KEPT:
        return table
    group = table.group[behind]
    _, ends = spans(group, int(group[-1]) + 1)
    kept = np.ones(len(table), np.bool_)
    kept[behind] = ends[group] - np.arange(len(behind)) <= table.KEPT
    return table.take(kept)


def _among(table: Rows, group: Ints) -> Rows:
    """The rows of the groups that have a number, with these numbers."""
    return table.with_columns(group=group).take(group >= 0)


def _joined(tables: Sequence[Rows], offsets: Sequence[int]) -> Rows:
    moved = [one.with_columns(group=one.group + at) for one, at in zip(tables, offsets, strict=False)]
    return type(tables[0]).concat(moved)


def _alone(table: Rows, start: int, end: int) -> Rows:
    rows = table.take(slice(start, end))  # type: ignore[arg-type]
    return rows.with_columns(group=np.zeros(len(rows), np.int64))


def _merge(old: Rows, removed: Bools, new: Rows, rows: Ints) -> Rows:
    both = type(old).concat([old.take(~removed[old.group]), new.with_columns(group=rows[new.group])])
    return both.take(order_by_group(both.group))
