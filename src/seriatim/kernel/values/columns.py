"""Columns and the few array operations of the rules. This module knows nothing about messages or policies.

Sorted by group means: rows of one group are neighbours, groups ascend. Nearly every function here
requires that and keeps it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

_RADIX = 2**16


def empty_ints(n: int = 0) -> Ints:
    return np.zeros(n, np.int64)


@dataclass(frozen=True, slots=True)
class Columns:
    """A table: arrays of one length, a field each. A column that nothing needs is None."""

    #: The names of the columns; a dataclass is matched by them.
    __match_args__: ClassVar[tuple[str, ...]]

    def __len__(self) -> int:
        return len(getattr(self, self.__match_args__[0]))

    def lists(self) -> list[list[Any]]:
        """The columns as lists, in their order; without those that there aren't."""
        columns = [getattr(self, name) for name in self.__match_args__]
        return [column.tolist() for column in columns if column is not None]

    def take(self, rows: NDArray[Any]) -> Self:
        columns = [getattr(self, name) for name in self.__match_args__]
        return type(self)(*[None if column is None else column[rows] for column in columns])

    def put(self, rows: NDArray[Any], other: Self) -> Self:
        """Return the same table with some rows replaced by rows of another table."""
        columns = {name: getattr(self, name).copy() for name in self.__match_args__}
        for name, column in columns.items():
            column[rows] = getattr(other, name)
        return type(self)(**columns)

    def with_columns(self, **columns: NDArray[Any] | None) -> Self:
        kept = {name: getattr(self, name) for name in self.__match_args__}
        return type(self)(**(kept | columns))

    @classmethod
    def concat(cls, parts: Sequence[Self]) -> Self:
        """The rows of all parts, one after another. At least one part. Without the columns that a part lacks."""
        if len(parts) == 1:
            return parts[0]
        filled = [part for part in parts if len(part)]
        if len(filled) == 1:
            return filled[0]
        if not filled:
            return parts[0]
        columns = [[getattr(part, name) for part in filled] for name in cls.__match_args__]
        return cls(*[None if any(one is None for one in column) else np.concatenate(column) for column in columns])


class Numbered(Columns):
    """Messages by their numbers: `sequence` is the first that each covers, `through` the last; None: each covers its own alone."""

    __slots__ = ()
    sequence: Ints
    through: Ints | None

    @property
    def ends(self) -> Ints:
        """The last number that each message covers."""
        return self.sequence if self.through is None else self.through


def order_by_group(group: Ints) -> Ints:
    """The positions that sort by group and keep the order within a group."""
    if len(group) and group[-1] < _RADIX and group.max() < _RADIX:
        # NumPy sorts 16-bit integers stably by radix: several times faster than by comparison.
        return np.argsort(group.astype(np.uint16), kind="stable")
    return np.argsort(group, kind="stable")


def order_by(group: Ints, sequence: Ints) -> Ints:
    """The positions that sort by group, then sequence, and keep the order of equal ones."""
    if not len(group):
        return empty_ints()
    low, high = int(sequence.min()), int(sequence.max())
    span = high - low + 1
    if span * (int(group.max()) + 1) < 2**62:
        # One sort of a packed key; the input is mostly in order, which a stable (merging) sort exploits.
        return np.argsort(group * span + (sequence - low), kind="stable")
    return np.lexsort((sequence, group))


def mask_of(n: int, rows: NDArray[Any]) -> Bools:
    mask = np.zeros(n, np.bool_)
    mask[rows] = True
    return mask


def by_group(groups: int, otherwise: int, group: NDArray[Any], values: Ints | int) -> Ints:
    """A value for each group: that of its last row, or `otherwise`."""
    found = np.full(groups, otherwise, np.int64)
    found[group] = values
    return found


def spans(group: Ints, groups: int) -> tuple[Ints, Ints]:
    """The start and the end (exclusive) of each group's rows, for rows sorted by group."""
    edges = np.searchsorted(group, np.arange(groups + 1))
    return edges[:-1], edges[1:]


def first_per_group(group: Ints) -> Bools:
    """A mask of the rows that are the first of their group, for rows sorted by group."""
    first = np.ones(len(group), np.bool_)
    np.not_equal(group[1:], group[:-1], out=first[1:])
    return first


def put_first(into: Ints, which: Bools, group: Ints, values: Ints) -> Ints:
    """Put the value of the first row of each group for which `which` holds into values by group, and return them."""
    rows = np.flatnonzero(which)[::-1]  # backwards, so that the first of a group is written last
    into[group[rows]] = values[rows]
    return into


def first_rows(which: Bools, group: Ints, groups: int) -> Ints:
    """For each group its first row for which `which` holds; the number of all rows if it has none."""
    return put_first(np.full(groups, len(group), np.int64), which, group, np.arange(len(group)))


def last_per_group(group: Ints) -> Bools:
    """A mask of the rows that are the last of their group, for rows sorted by group."""
    last = np.ones(len(group), np.bool_)
    np.not_equal(group[1:], group[:-1], out=last[:-1])
    return last


def rank_in_group(group: Ints) -> Ints:
    """0, 1, 2 … within each group, for rows sorted by group."""
    positions = np.arange(len(group))
    starts = np.where(first_per_group(group), positions, 0)
    return positions - np.maximum.accumulate(starts) if len(group) else positions


def sum_before(group: Ints, counts: Ints) -> Ints:
    """The sum of the counts (from 0) before each row within its group, for rows sorted by group."""
    if not len(group):
        return empty_ints()
    total = np.cumsum(counts) - counts
    return total - np.maximum.accumulate(np.where(first_per_group(group), total, 0))


def none_so_far(group: Ints, marked: Bools) -> Bools:
    """The rows up to which, themselves included, none of their group is marked, for rows sorted by group."""
    ones = marked.astype(np.int64)
    found: Bools = sum_before(group, ones) + ones == 0
    return found


def sum_per_group(group: Ints, counts: Ints, groups: int) -> Ints:
    """The sum of the counts of each group: numbers of messages, which a float holds exactly."""
    return np.bincount(group, counts, groups).astype(np.int64)


def running_max(group: Ints, positions: Ints) -> Ints:
    """The largest position so far within each group, for rows sorted by group. Positions are row numbers (or -1), so lifting each group
    above the one before can't overflow.
    """
    if not len(positions):
        return positions
    lift = group * (int(positions.max()) + 2)
    return np.maximum.accumulate(positions + lift) - lift


def running_latest(group: Ints, times: Ints) -> Ints:
    """The latest time so far within each group, for rows sorted by group. The times may be any numbers."""
    if len(times) < 2:
        return times
    ascends = times[1:] >= times[:-1]
    if ascends.all() or (ascends | (group[1:] != group[:-1])).all():
        return times
    low = int(times.min())
    width = int(times.max()) - low + 1
    if width * (int(group[-1]) + 1) < 2**62:  # each group's numbers lie above those of the one before
        lift = group * width - low
        lifted: Ints = np.maximum.accumulate(times + lift) - lift
        return lifted
    order = np.argsort(times, kind="stable")
    place = empty_ints(len(times))
    place[order] = np.arange(len(times))
    latest: Ints = times[order][running_max(group, place)]
    return latest


def search_within(values: Ints, low: Ints, high: Ints, wanted: Ints) -> Ints:
    """For each wanted value, the leftmost position in ``values[low:high]`` (ascending) that is not below it. A binary search of all rows at
    once: as many steps as the longest range has bits.
    """
    low, high = low.copy(), high.copy()
    while True:
        open_ = low < high
        if not open_.any():
            return low
        middle = (low + high) // 2
        below = np.zeros(len(low), np.bool_)
        below[open_] = values[middle[open_]] < wanted[open_]
        low = np.where(open_ & below, middle + 1, low)
        high = np.where(open_ & ~below, middle, high)


def expand(counts: Ints) -> tuple[Ints, Ints]:
    """Row numbers repeated `counts` times each, and 0, 1, 2 … within each repetition."""
    rows = np.repeat(np.arange(len(counts)), counts)
    starts = np.cumsum(counts) - counts
    return rows, np.arange(len(rows)) - starts[rows]
