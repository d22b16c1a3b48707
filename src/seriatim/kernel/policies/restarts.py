"""A producer that begins anew: which arrivals below `next` count, and what is held when their count reaches `restart_after`.

Counted are late messages, messages below the start, duplicates with another content, and such that can't be compared, if they begin at the
group's first number or follow, number by number, on one that counted. A message that leaves in its turn sets the count to 0. With
``on_restart="suspend"`` the arrival that completes the count suspends its group, and from it on all that arrives below `next` is held.

Almost no arrival is below `next`; a batch without one costs a look.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from seriatim.kernel.groups.arrivals import Arrivals
from seriatim.kernel.groups.policy import Standard
from seriatim.kernel.groups.state import Flag, Groups, State
from seriatim.kernel.policies.closing import OVER
from seriatim.kernel.policies.conflicts import Likeness, compared, rows_of
from seriatim.kernel.policies.copies import are_copies
from seriatim.kernel.policies.holes import Taken
from seriatim.kernel.values.columns import Bools, Columns, Ints, first_per_group, running_latest, search_within, spans
from seriatim.kernel.values.outcome import Decided, Disposition, EventKind, Events, Reason, no_events, no_messages


@dataclass(frozen=True, slots=True)
class Passage:
    """What a release has let pass: the numbers that were taken, which of them passed, the arrival after which each did. And what was
    covered.
    """

    at: Taken
    free: Bools
    moment: Ints
    covered: Decided


@dataclass(frozen=True, slots=True)
class Judgement:
    """The results of arrivals: their dispositions, and before that the reasons why they are not simply taken in. `reason`: as far as each
    was judged by itself; `back`: those that are held because their producer seems to have begun anew; `likeness`: of messages that come
    again, whether their content is the same.
    """

    disposition: Ints
    reason: Ints
    back: Bools
    likeness: Ints


def suspects_restart(policy: Standard, groups: Groups) -> Bools:
    if not policy.restart_after:
        return np.zeros(len(groups), np.bool_)
    suspected: Bools = groups.suspects >= policy.restart_after
    return suspected


def one_by_one(policy: Standard, state: State, arrivals: Arrivals) -> Bools:
    """The arrivals that can be judged before it has to be known whether the next of them completes the count. Where an arrival may complete
    it, it comes first, so that the state before it tells.
    """
    groups, group = state.groups, arrivals.group
    first = first_per_group(group)
    above = np.ones(len(arrivals), np.bool_)
    above[1:] = arrivals.sequence[1:] > running_latest(group, arrivals.sequence)[:-1]
    odd = (arrivals.sequence < groups.next[group]) | ~(above | first)
    odd |= is_held(state, group, arrivals.sequence, arrivals.ends)
    before = np.cumsum(odd)
    at_start = np.zeros(len(state), np.int64)
    starts = np.flatnonzero(first)
    at_start[group[starts]] = before[starts] - odd[starts]
    begins = np.zeros(len(state), np.bool_)
    begins[group[starts]] = odd[starts]
    room = np.maximum(policy.restart_after - 1 - groups.suspects, begins)
    fits: Bools = (before - at_start[group] <= room[group]) | _holding(policy, groups)[group]
    return fits


def held_back(policy: Standard, state: State, arrivals: Arrivals, disposition: Ints, reason: Ints) -> Bools:
    """Return the arrivals that are held because of a suspected restart of their producer; see `one_by_one`. `disposition`: what each would
    become by itself. `reason`: the reason for that.
    """
    groups, group = state.groups, arrivals.group
    holding = _holding(policy, groups)
    near = (groups.suspects >= policy.restart_after - 1) & ~holding
    if not (holding.any() or near.any()):
        return np.zeros(len(arrivals), np.bool_)
    below = (arrivals.ends < groups.next[group]) & (disposition != Disposition.HELD) & _is_below(reason)
    below &= ~groups.has(OVER)[group]
    below &= ~are_copies(policy, state, arrivals, below & (reason == Reason.TAKEN_BEFORE))
    back: Bools = below & holding[group]
    rows = np.flatnonzero(first_per_group(group) & near[group] & below)
    if len(rows):
        again = _is_repeated(state, arrivals, rows, disposition)
        follows = _begins(policy, groups, arrivals, rows)
        like = compared(state, state.held, no_messages(), arrivals, rows, policy.remember)
        counts = (like == Likeness.DIFFERENT) | ((like == Likeness.UNKNOWN) & follows)
        back[rows] = np.where(again, counts, True)
    return back


def count(
    policy: Standard, before: State, after: State, arrivals: Arrivals, judged: Judgement, passage: Passage
) -> tuple[State, Bools, Events]:
    """Count the arrivals below `next`. `before`: the state before the arrivals. `after`: the state after them. `judged`: their
    dispositions. `passage`: what they have let pass. Returns the state with the counts, a mask of the arrivals that count, and the events
    of the groups where the count is complete.
    """
    counted = np.zeros(len(arrivals), np.bool_)
    if not policy.restart_after:
        return after, counted, no_events()
    leaves = passage.free & passage.at.messages
    rows = np.flatnonzero((judged.disposition == Disposition.DUPLICATE) | (judged.reason != Reason.NONE))
    if len(rows):
        rows = rows[(judged.disposition[rows] == Disposition.DUPLICATE) | _is_below(judged.reason[rows])]
        rows = rows[(judged.disposition[rows] != Disposition.COPY) & (judged.reason[rows] != Reason.COVERED)]
        rows = rows[~before.groups.has(OVER)[arrivals.group[rows]]]
    if not len(rows):
        return after.calmed(passage.at.group[leaves]), counted, no_events()
    group, sequence = arrivals.group[rows], arrivals.sequence[rows]
    repeats = judged.disposition[rows] == Disposition.DUPLICATE
    if judged.back.any():
        repeats |= judged.back[rows] & _is_repeated(before, arrivals, rows, judged.disposition)
        repeats |= judged.back[rows] & (judged.reason[rows] == Reason.TAKEN_BEFORE)
    below = (arrivals.ends[rows] < before.groups.next[group]) | _has_passed(
        passage, group, np.maximum(sequence, before.groups.next[group]), rows, len(after)
    )

    facts = _Facts(
        rows,
        group,
        sequence,
        arrivals.ends[rows],
        repeats,
        judged.likeness[rows],
        below,
        _released_before(passage, leaves, group, rows, len(arrivals)),
    )
    total = np.bincount(passage.at.group[leaves], minlength=len(after))
    state, complete = _counted(policy, after, facts, total, counted)
    if not len(complete):
        return state, counted, no_events()
    numbers = arrivals.sequence[complete]
    many = np.full(len(complete), policy.restart_after, np.int64)
    events = Events.of(
        EventKind.RESTART_SUSPECTED, arrivals.group[complete], numbers, numbers, arrivals.time[complete], count=many
    )
    return state, counted, events


@dataclass(frozen=True, slots=True)
class _Facts(Columns):
    """Arrivals that may count, in their order. `repeats`: it repeats a message, and `likeness`: whether that has the same content. `below`:
    it is below `next`. `released`: how many messages of its group have left before it in the same call.
    """

    row: Ints
    group: Ints
    sequence: Ints
    ends: Ints
    repeats: Bools
    likeness: Ints
    below: Bools
    released: Ints


def _released_before(passage: Passage, leaves: Bools, group: Ints, rows: Ints, arrivals: int) -> Ints:
    left, moments = passage.at.group[leaves], passage.moment[leaves]
    width = arrivals + 1
    upto = np.searchsorted(left * width + moments, group * width + rows, side="right")
    released: Ints = upto - np.searchsorted(left, group)
    return released


def _counted(policy: Standard, state: State, facts: _Facts, total: Ints, counted: Bools) -> tuple[State, Ints]:
    """Return the state with the counts, and the arrivals that complete one. `total`: how many messages of each group have left."""
    groups, step = state.groups, policy.increment
    suspects, suspect = groups.suspects.copy(), groups.suspect.copy()
    seen = dict.fromkeys(facts.group.tolist(), 0)
    untouched = total > 0
    untouched[facts.group] = False
    suspects[untouched] = 0
    complete: list[int] = []
    for row, group, number, end, repeats, likeness, below, released in zip(*facts.lists(), strict=True):
        if released > seen[group]:
            suspects[group], seen[group] = 0, released
        if not below or (repeats and likeness == Likeness.EQUAL):
            continue
        follows = number in (groups.first[group], suspect[group] + step)
        if repeats and likeness == Likeness.UNKNOWN and not follows:
            continue
        counted[row], suspect[group] = True, end
        suspects[group] += 1
        if suspects[group] == policy.restart_after:
            complete.append(row)
    for group, before in seen.items():
        if total[group] > before:
            suspects[group] = 0
    return state.with_groups(suspects=suspects, suspect=suspect), np.array(complete, np.int64)


def is_held(state: State, group: Ints, first: Ints, last: Ints, *, late: bool = False) -> Bools:
    """The numbers, or runs of them, that one message which a group holds covers; `late`: as a late message."""
    held = state.held.take((state.held.late == late) & (~state.held.waits | state.held.late) & ~state.held.suspected)
    if held.through is None:
        return rows_of(held, len(state), group, first) >= 0
    if not len(held):
        return np.zeros(len(group), np.bool_)
    starts, ends = spans(held.group, len(state))
    # Behind the last row that begins no later: the highest number that the rows before it cover.
    at = search_within(held.sequence, starts[group], ends[group], first + 1) - 1
    covered: Bools = (at >= starts[group]) & (running_latest(held.group, held.through)[at] >= last)
    return covered


def _holding(policy: Standard, groups: Groups) -> Bools:
    """The groups that hold arrivals below `next`."""
    holding: Bools = suspects_restart(policy, groups) & groups.has(Flag.SUSPENDED) & (policy.on_restart == "suspend")
    return holding


def _is_below(reason: Ints) -> Bools:
    return np.isin(reason, _BELOW)


_BELOW = (Reason.SKIPPED, Reason.BEFORE_FIRST, Reason.BEFORE_OPENING, Reason.BELOW_START, Reason.TAKEN_BEFORE)


def _is_repeated(state: State, arrivals: Arrivals, rows: Ints, disposition: Ints) -> Bools:
    """The arrivals that repeat a number that was taken in, or is held as late."""
    late = is_held(state, arrivals.group[rows], arrivals.sequence[rows], arrivals.ends[rows], late=True)
    return late | (disposition[rows] == Disposition.DUPLICATE)


def _begins(policy: Standard, groups: Groups, arrivals: Arrivals, rows: Ints) -> Bools:
    """The arrivals with the first number of their group, or the number after the last that counted."""
    group, sequence = arrivals.group[rows], arrivals.sequence[rows]
    begins: Bools = (sequence == groups.first[group]) | (sequence == groups.suspect[group] + policy.increment)
    return begins


def _has_passed(passage: Passage, group: Ints, sequence: Ints, rows: Ints, groups: int) -> Bools:
    """The numbers that passed in the same call, before the arrivals `rows`."""
    at = passage.at
    if not len(at):
        return np.zeros(len(rows), np.bool_)
    is_there = rows_of(at, groups, group, sequence)
    passed: Bools = (is_there >= 0) & passage.free[is_there] & (passage.moment[is_there] < rows)
    return passed
