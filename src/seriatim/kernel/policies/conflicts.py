"""Conflicts: a repeated number with another content, as far as the fingerprints of both messages are known.

A message that comes again is compared with the one that has its number: a held one, or one of the last `remember` that left.
A batch without a message that comes again costs nothing.
"""

from __future__ import annotations

from dataclasses import replace
from enum import IntEnum

import numpy as np

from seriatim.kernel.groups.arrivals import Arrivals
from seriatim.kernel.groups.state import Held, Remembered, Sights, State
from seriatim.kernel.policies.holes import Taken
from seriatim.kernel.values.columns import (
    Bools,
    Ints,
    empty_ints,
    mask_of,
    order_by,
    order_by_group,
    rank_in_group,
    search_within,
    spans,
)
from seriatim.kernel.values.outcome import Decided, EventKind, Events


class Likeness(IntEnum):
    UNKNOWN = 0
    EQUAL = 1
    DIFFERENT = 2


def compared(state: State, held: Held, left: Decided, arrivals: Arrivals, rows: Ints, remember: int | None) -> Ints:
    """The `Likeness` of arrivals with the messages whose numbers they repeat. `state`: the groups with the messages that left earlier.
    `held`: what is held before anything leaves, the arrivals included that are taken in. `left`: the messages that leave, in the order in
    which they do; `cause` is the ref of the arrival that releases each. `rows`: those that repeat numbers. `remember`: how many messages
    that left are remembered of each group.
    """
    fates = empty_ints(len(rows))
    if not len(rows) or not arrivals.fingerprint[rows].any():
        return fates
    if arrivals.through is not None:
        state, held, left, arrivals = _with_both_ends(state, held, left, arrivals)
    # What was held aside comes behind the message that opens its group: not refs tell the order, but places.
    group, sequence = arrivals.group[rows], arrivals.sequence[rows]
    left = left.with_columns(cause=_places(arrivals.ref, left.cause))
    own = arrivals.fingerprint[rows]
    other = empty_ints(len(rows))
    released = _Released(state, left, group, len(arrivals), remember or 0)
    ask, was_late = np.zeros(len(rows), np.bool_), np.zeros(len(rows), np.bool_)
    for late in (True, False):  # what is held in its turn before what is held as late: no group has both for one number
        its = held.take((held.late == late) & (~held.waits | held.late) & ~held.suspected)
        at = rows_of(its, len(state), group, sequence)
        came = _places(arrivals.ref, its.ref)
        holds = (at >= 0) & (came[at] < rows) if len(its) else np.zeros(len(rows), np.bool_)
        other[holds] = its.fingerprint[at[holds]]
        ask[holds] = released.have_left(its.ref[at[holds]], rows[holds])
        if late:
            was_late = holds
    ask |= ~(holds | was_late)
    other[ask] = released.fingerprints(group[ask], sequence[ask], rows[ask])
    known = (own != 0) & (other != 0)
    fates[known] = np.where(own[known] == other[known], Likeness.EQUAL, Likeness.DIFFERENT)
    return fates


def _with_both_ends(
    state: State, held: Held, left: Decided, arrivals: Arrivals
) -> tuple[State, Held, Decided, Arrivals]:
    """The same, with a number for each run of numbers in place of its first: two are compared if both of their ends are equal."""
    tables = (state.remembered, held, left, arrivals)
    pairs = np.concatenate([np.stack([one.sequence, one.ends]) for one in tables], axis=1)
    _, codes = np.unique(pairs, axis=1, return_inverse=True)
    edges = np.cumsum([0] + [len(one) for one in tables])
    remembered, its, left_, came = (
        codes[: edges[1]],
        codes[edges[1] : edges[2]],
        codes[edges[2] : edges[3]],
        codes[edges[3] :],
    )
    state = replace(state, remembered=state.remembered.with_columns(sequence=remembered))
    held = held.with_columns(sequence=its)
    held = held.take(order_by(held.group, held.sequence))
    return state, held, left.with_columns(sequence=left_), arrivals.with_columns(sequence=came)


def _places(refs: Ints, wanted: Ints) -> Ints:
    """The places of arrivals among all, by their refs; -1: an earlier arrival."""
    order = np.argsort(refs, kind="stable")
    places: Ints = order[np.minimum(np.searchsorted(refs, wanted, sorter=order), len(refs) - 1)]
    return np.where(refs[places] == wanted, places, -1)


class _Released:
    """The messages that have left of some groups, before and in this call, in the order in which they did. The cause of each that leaves is
    the place of an arrival; of those that left before it is -1.
    """

    def __init__(self, state: State, left: Decided, groups: Ints, arrivals: int, remember: int) -> None:
        wanted = mask_of(len(state), groups)
        earlier, now = state.remembered.take(wanted[state.remembered.group]), left.take(wanted[left.group])
        self._remember, self._width = remember, arrivals + 2
        self._refs = np.argsort(now.ref, kind="stable")
        self._left = now
        group = np.concatenate([earlier.group, now.group])
        order = order_by_group(group)
        self._group = group[order]
        self._sequence = np.concatenate([earlier.sequence, now.sequence])[order]
        self._fingerprint = np.concatenate([earlier.fingerprint, now.fingerprint])[order]
        self._rank = rank_in_group(self._group)
        cause = np.concatenate([np.full(len(earlier), -1, np.int64), now.cause])[order]
        self._moments = self._group * self._width + cause + 1  # ascending
        self._starts, _ = spans(self._group, len(state))

    def have_left(self, refs: Ints, before: Ints) -> Bools:
        """Return whether each message has left in this call before the arrival at a place."""
        if not len(self._left):
            return np.zeros(len(refs), np.bool_)
        own = self._left.ref
        at = self._refs[np.minimum(np.searchsorted(own, refs, sorter=self._refs), len(own) - 1)]
        have_left: Bools = (own[at] == refs) & (self._left.cause[at] < before)
        return have_left

    def fingerprints(self, group: Ints, sequence: Ints, before: Ints) -> Ints:
        """For each number the fingerprint of the message with it that is remembered before the arrival at a place; 0: there is none."""
        count = np.searchsorted(self._moments, group * self._width + before + 1) - self._starts[group]
        # Entries and questions in one order: before each question is the last entry that it may find.
        entries = len(self._group)
        kind = np.concatenate([np.ones(entries, np.int64), np.zeros(len(group), np.int64)])
        place = np.concatenate([self._rank, count])
        number = np.concatenate([self._sequence, sequence])
        order = np.lexsort((kind, place, number, np.concatenate([self._group, group])))
        last = np.maximum.accumulate(np.where(order < entries, np.arange(len(order)), -1))
        unknown = np.flatnonzero(order >= entries)
        which, entry = order[unknown] - entries, order[np.maximum(last[unknown], 0)]
        is_known = last[unknown] >= 0
        is_known[is_known] = (self._group[entry[is_known]] == group[which[is_known]]) & (
            self._sequence[entry[is_known]] == sequence[which[is_known]]
        )
        is_known[is_known] = self._rank[entry[is_known]] >= count[which[is_known]] - self._remember
        fingerprints = empty_ints(len(group))
        fingerprints[which[is_known]] = self._fingerprint[entry[is_known]]
        return fingerprints


def conflicts(arrivals: Arrivals, rows: Ints) -> Events:
    if not len(rows):
        return Events.of(EventKind.CONFLICT, rows, None, None, rows)
    number = arrivals.sequence[rows]
    events = Events.of(EventKind.CONFLICT, arrivals.group[rows], number, number, arrivals.time[rows])
    return events.merged(EventKind.CONFLICT)


def rows_of(table: Held | Taken | Sights | Remembered, groups: int, group: Ints, sequence: Ints) -> Ints:
    """The rows with these numbers, -1 where there is none; of equal numbers the first. The table is sorted by group and number."""
    starts, ends = spans(table.group, groups)
    at = search_within(table.sequence, starts[group], ends[group], sequence)
    is_there = at < ends[group]
    is_there[is_there] = table.sequence[at[is_there]] == sequence[is_there]
    return np.where(is_there, at, -1)
