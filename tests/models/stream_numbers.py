"""Numbers of streams: which of them are over, for ever, and where a sender goes on.

The box that opens streams with a peer counts them. Numbers that are over are kept as ranges, which grow together, since in the end every number is over.
A box keeps them as multiranges of PostgreSQL.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from seriatim.kernel.values.columns import Bools, Columns, Ints

__all__ = ["NONE", "NumberRanges", "following", "was_restored"]


@dataclass(frozen=True, slots=True)
class NumberRanges(Columns):
    """Numbers as ranges `first`..`last`, ascending, with a gap between any two."""

    first: Ints
    last: Ints

    def contain(self, numbers: Ints) -> Bools:
        """Which numbers lie in a range."""
        at = np.searchsorted(self.last, numbers)
        found = at < len(self)
        found[found] = self.first[at[found]] <= numbers[found]
        return found

    def joined(self, other: NumberRanges) -> NumberRanges:
        """The numbers that lie in either."""
        first, last = np.concatenate([self.first, other.first]), np.concatenate([self.last, other.last])
        order = np.argsort(first, kind="stable")
        first, reach = first[order], np.maximum.accumulate(last[order])
        begins = np.ones(len(first), np.bool_)
        begins[1:] = first[1:] > reach[:-1] + 1
        ends = np.roll(begins, -1)
        return NumberRanges(first[begins], reach[ends])

    def with_numbers(self, numbers: Ints) -> NumberRanges:
        """These, and the numbers."""
        return self.joined(NumberRanges(numbers, numbers))

    def without(self, other: NumberRanges) -> NumberRanges:
        """The numbers that lie in these and not in the other."""
        edges = np.unique(np.concatenate([self.first, self.last + 1, other.first, other.last + 1]))
        first, last = edges[:-1], edges[1:] - 1
        left = self.contain(first) & ~other.contain(first)
        return NumberRanges(first[left], last[left]).joined(NONE)

    @property
    def highest(self) -> int:
        """The highest number; 0 where there is none."""
        return int(self.last[-1]) if len(self) else 0


NONE = NumberRanges(np.zeros(0, np.int64), np.zeros(0, np.int64))


def following(opened: int, highest: int) -> int:
    """The number of the next stream: above those that this box has opened, and above those that its peer has heard of."""
    return max(opened, highest) + 1


def was_restored(opened: int, highest: int, *, is_same: bool) -> bool:
    """Whether a peer's answer tells the box that opens streams that it went back in time.

    Then what waits for a new stream may have left by one that the box no longer knows, so it is marked as replayed.

    Args:
        opened: the last number that this box has opened.
        highest: the highest that the peer has known.
        is_same: whether the peer means the same stream by it, as its first chain tells; True where this box can't tell.
    """
    return highest > opened or not is_same
