"""Conflicts: a number that comes again with another content, as far as the fingerprints of both messages are known.

A message that comes again is compared with the one that has its number: a held one, or one of the last `remember` that left.
A batch without a message that comes again costs nothing.
"""

from __future__ import annotations

from bisect import bisect_left
from enum import IntEnum

import numpy as np

from seriatim.kernel.arrivals import Arrivals
from seriatim.kernel.columns import Ints, empty_ints, search_within, spans
from seriatim.kernel.holes import Taken
from seriatim.kernel.outcome import Decided, EventKind, Events
from seriatim.kernel.state import Held, Sights, State

__all__ = ["Likeness", "compared", "conflicts", "rows_of"]


class Likeness(IntEnum):
    """What a comparison of two contents tells."""

    UNKNOWN = 0
    EQUAL = 1
    DIFFERENT = 2


def compared(state: State, held: Held, left: Decided, arrivals: Arrivals, rows: Ints, remember: int | None) -> Ints:
    """The `Likeness` of arrivals with the messages whose numbers they repeat.

    Args:
        state: the groups with the messages that left earlier.
        held: what is held before anything leaves, the arrivals included that are taken in.
        left: the messages that leave, in the order in which they do; `cause` is the ref of the arrival that releases each.
        arrivals: the arrivals.
        rows: those that repeat numbers.
        remember: how many messages that left are remembered of each group.
    """
    found = empty_ints(len(rows))
    if not len(rows) or not arrivals.fingerprint[rows].any():
        return found
    # What was held aside comes behind the message that opens its group: not refs tell the order, but places.
    group, sequence = arrivals.group[rows], arrivals.sequence[rows]
    left = left.with_columns(cause=_places(arrivals.ref, left.cause))
    own = arrivals.fingerprint[rows]
    other = empty_ints(len(rows))
    gone = set(left.ref.tolist())
    released = _Released(state, left, remember or 0)
    for late in (True, False):  # what is held in its turn before what is held as late: no group has both for one number
        its = held.take((held.late == late) & ~held.suspected)
        at = rows_of(its, len(state), group, sequence)
        came = _places(arrivals.ref, its.ref)
        holds = (at >= 0) & (came[at] < rows) if len(its) else np.zeros(len(rows), np.bool_)
        other[holds] = its.fingerprint[at[holds]]
        for row in np.flatnonzero(holds).tolist():
            if int(its.ref[at[row]]) in gone and released.has_left(
                int(group[row]), int(its.ref[at[row]]), int(rows[row])
            ):
                other[row] = released.fingerprint(int(group[row]), int(sequence[row]), int(rows[row]))
        if late:
            was_late = holds
    rest = np.flatnonzero(~(holds | was_late))
    for row in rest.tolist():
        other[row] = released.fingerprint(int(group[row]), int(sequence[row]), int(rows[row]))
    known = (own != 0) & (other != 0)
    found[known] = np.where(own[known] == other[known], Likeness.EQUAL, Likeness.DIFFERENT)
    return found


def _places(refs: Ints, wanted: Ints) -> Ints:
    """The places of arrivals among all, by their refs; -1: it came earlier."""
    order = np.argsort(refs, kind="stable")
    found: Ints = order[np.minimum(np.searchsorted(refs, wanted, sorter=order), len(refs) - 1)]
    return np.where(refs[found] == wanted, found, -1)


class _Released:
    """The messages that have left of some groups, before and in this call, looked at group by group when one is asked for.

    The cause of each that leaves is the place of an arrival.
    """

    def __init__(self, state: State, left: Decided, remember: int) -> None:
        self._state, self._left, self._remember = state, left, remember
        self._groups: dict[int, tuple[list[int], dict[int, list[int]], list[int], dict[int, int]]] = {}

    def has_left(self, group: int, ref: int, before: int) -> bool:
        """Whether the message `ref` has left before the arrival at a place."""
        causes, _, _, places = self._of(group)
        return causes[places[ref]] < before

    def fingerprint(self, group: int, sequence: int, before: int) -> int:
        """The fingerprint of the message with this number that is remembered before the arrival at a place; 0: there is none."""
        causes, numbers, fingerprints, _ = self._of(group)
        count = bisect_left(causes, before)
        for place in reversed(numbers.get(sequence, ())):
            if place < count:
                return fingerprints[place] if place >= count - self._remember else 0
        return 0

    def _of(self, group: int) -> tuple[list[int], dict[int, list[int]], list[int], dict[int, int]]:
        if (known := self._groups.get(group)) is None:
            earlier = self._state.remembered
            earlier = earlier.take(earlier.group == group)
            now = self._left.take(self._left.group == group)
            causes = [-1] * len(earlier) + now.cause.tolist()
            numbers: dict[int, list[int]] = {}
            for place, number in enumerate([*earlier.sequence.tolist(), *now.sequence.tolist()]):
                numbers.setdefault(number, []).append(place)
            places = {ref: len(earlier) + place for place, ref in enumerate(now.ref.tolist())}
            known = causes, numbers, [*earlier.fingerprint.tolist(), *now.fingerprint.tolist()], places
            self._groups[group] = known
        return known


def conflicts(arrivals: Arrivals, rows: Ints) -> Events:
    """The events of conflicts: for each group the first, with a count."""
    if not len(rows):
        return Events.of(EventKind.CONFLICT, rows, None, None, rows)
    number = arrivals.sequence[rows]
    told = Events.of(EventKind.CONFLICT, arrivals.group[rows], number, number, arrivals.time[rows])
    return told.merged(EventKind.CONFLICT)


def rows_of(table: Held | Taken | Sights, groups: int, group: Ints, sequence: Ints) -> Ints:
    """The rows with these numbers, -1 where there is none; of equal ones the first. The table is sorted by group and number."""
    starts, ends = spans(table.group, groups)
    at = search_within(table.sequence, starts[group], ends[group], sequence)
    found = at < ends[group]
    found[found] = table.sequence[at[found]] == sequence[found]
    return np.where(found, at, -1)
