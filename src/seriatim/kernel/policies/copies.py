"""Copies: two regions send each message, and one of the two counts.

Each region sends every message. The first sight of a message counts, whichever region it comes from; it is judged as any other. A repeated
message is a *copy*, if its region hasn't shown it yet, and a *duplicate*, if it has. So each region may lag, stop and come back, and what
it brings then is no fault of anybody's.

* `Standard`: a message is known by its number, and by its id, which is its fingerprint. Of each group are kept the runs of numbers that one
  region only has shown (`Sights`): where both keep up, there is nothing. Another id under a number that was taken in is a conflict, as
  ever. The ids of the last `remember` that left, and of all that are held, are known; a number whose id isn't is judged by its region
  alone.
* `FifoMerged`: there is no number. A message is known by its id, for as long as the horizon.

A batch without regions costs a look.
"""

from __future__ import annotations

import numpy as np

from seriatim.kernel.groups.arrivals import Arrivals
from seriatim.kernel.groups.policy import FifoMerged, Standard
from seriatim.kernel.groups.state import Sights, State
from seriatim.kernel.policies.closing import OVER
from seriatim.kernel.policies.conflicts import Likeness, compared, rows_of
from seriatim.kernel.values.columns import Bools, Ints, empty_ints, first_per_group, order_by, sum_before
from seriatim.kernel.values.outcome import Disposition, Reason, no_messages
from seriatim.kernel.values.time import micros

#: The names of two regions.
REGIONS = ("a", "b")
#: A set of regions, as bits: both.
BOTH = 3
#: The place of a message's region among its bits; the bits below are for opening and closing, see ``stays.py``.
_SHIFT = 2
#: The dispositions of messages that were taken in.
_TAKEN = (Disposition.HELD, Disposition.RELEASED, Disposition.VOID)


def region_bit(name: object) -> int:
    return 1 << (_SHIFT + REGIONS.index(name)) if name in REGIONS else 0


def regions_of(bits: Ints) -> Ints:
    """The region of each message, by its bits: 1 or 2, 0 if it has none."""
    return (bits >> _SHIFT) & BOTH


def come_from_regions(arrivals: Arrivals) -> bool:
    """Return whether some of the messages name their region; for policies without sizes."""
    return bool(len(arrivals)) and int(arrivals.size.max()) >= 1 << _SHIFT


def known_again(state: State, arrivals: Arrivals, first: Ints, held: Bools) -> Bools:
    """The messages from regions whose numbers were taken in, also where their group is closed: there they are no later than elsewhere.
    `first`: the lowest number of each one's group. `held`: whether its number is held.
    """
    group, sequence = arrivals.group, arrivals.sequence
    skipped = state.skipped.contain(group, sequence)
    again: Bools = (sequence < state.groups.next[group]) | skipped | held
    return again & (sequence >= first) & (regions_of(arrivals.bits) > 0)


def are_copies(policy: Standard, state: State, arrivals: Arrivals, again: Bools) -> Bools:
    """Return which of the messages below `next` are copies; `again`: those whose numbers were taken in, by the state before all of them."""
    copies = np.zeros(len(arrivals), np.bool_)
    if not come_from_regions(arrivals):
        return copies
    region = regions_of(arrivals.bits)
    rows = np.flatnonzero(again & (region > 0))
    shown = _shown(state.sights, len(state), arrivals.group[rows], arrivals.sequence[rows])
    rows = rows[(shown & region[rows]) == 0]
    like = compared(state, state.held, no_messages(), arrivals, rows, policy.remember)
    rows = rows[like != Likeness.DIFFERENT]
    rows = rows[np.lexsort((rows, region[rows], arrivals.sequence[rows], arrivals.group[rows]))]
    copies[rows[_starts(arrivals.group[rows], arrivals.sequence[rows], region[rows])]] = True
    return copies


def by_number(
    policy: Standard, after: State, arrivals: Arrivals, *, disposition: Ints, reason: Ints, likeness: Ints, back: Bools
) -> State:
    """Mark the copies among duplicates, and note what each region has shown. `after`: the state after the arrivals. `disposition`: the
    disposition of each; of those that leave in their turn `HELD`. Changed in place, like `reason`. `reason`: why. `likeness`: of those that
    come again: whether they have the ids of those whose numbers they repeat. `back`: those that are held because their producer seems to
    have begun anew: nothing is known of these yet. Returns the state with the sights.
    """
    region = regions_of(arrivals.bits)
    is_taken = np.isin(disposition, _TAKEN) & ~back
    again = (disposition == Disposition.DUPLICATE) & (likeness != Likeness.DIFFERENT) & (region > 0)
    region[region == 0] = BOTH  # a void of a program's own: no region sends it again
    rows = np.flatnonzero(is_taken | again)
    rows = rows[order_by(arrivals.group[rows], arrivals.sequence[rows])]
    group, number, regions = arrivals.group[rows], arrivals.sequence[rows], region[rows]
    starts = np.flatnonzero(_starts(group, number))
    run = _runs(starts, len(rows))
    # A number that is taken in now is new, whatever was known of it: a group may have begun anew.
    fresh = is_taken[rows[starts]]
    known = np.where(fresh, 0, _shown(after.sights, len(after), group[starts], number[starts]))
    copied = rows[again[rows] & ((known[run] | _earlier(run, regions)) & regions == 0)]
    disposition[copied], reason[copied] = Disposition.COPY, Reason.COPIED
    seen = known | np.bitwise_or.reduceat(regions, starts) if len(starts) else known
    changed = fresh | (seen != known)
    group, number = group[starts][changed], number[starts][changed]
    seen = seen[changed]
    alone = seen < BOTH
    sights = after.sights.without(len(after), group, number, policy.increment)
    sights = sights.joined(Sights.of_numbers(group[alone], number[alone], seen[alone]), policy.increment)
    return after.with_sights(sights.kept(after.groups.next))


def by_identity(policy: FifoMerged, state: State, arrivals: Arrivals) -> tuple[State, Ints, Ints]:
    """Find the messages that are known by their ids, and note the others. `arrivals`: the arrivals; see `within_horizon`. Returns the state
    with the sights; for each arrival its disposition, `HELD` if it isn't known, and the reason.
    """
    disposition, reason = np.full(len(arrivals), int(Disposition.HELD)), empty_ints(len(arrivals))
    horizon, sights, region = micros(policy.horizon), state.sights, regions_of(arrivals.bits)
    rows = np.flatnonzero((region > 0) & (arrivals.weight > 0) & (arrivals.fingerprint != 0))
    rows = rows[np.lexsort((rows, arrivals.fingerprint[rows], arrivals.group[rows]))]
    at = rows_of(sights, len(state), arrivals.group[rows], arrivals.fingerprint[rows])
    known = at >= 0
    known[known] = arrivals.time[rows[known]] - sights.time[at[known]] <= horizon
    # A closed group takes nothing in: an unknown message is no sight.
    counts = known | ~state.groups.has(OVER)[arrivals.group[rows]]
    rows, at, known = rows[counts], at[counts], known[counts]
    group, identity, own = arrivals.group[rows], arrivals.fingerprint[rows], region[rows]
    starts = np.flatnonzero(_starts(group, identity, known.astype(np.int64)))
    run = _runs(starts, len(rows))
    again = known.copy()
    again |= np.arange(len(rows)) != starts[run] if len(rows) else False
    before = empty_ints(len(starts))
    before[known[starts]] = sights.regions[at[starts[known[starts]]]]
    shown = (before[run] | _earlier(run, own)) & own > 0
    disposition[rows[again]] = np.where(shown, Disposition.DUPLICATE, Disposition.COPY)[again]
    reason[rows[again]] = np.where(shown, Reason.SEEN_BEFORE, Reason.COPIED)[again]

    seen = before | np.bitwise_or.reduceat(own, starts) if len(starts) else before
    regions, old = sights.regions.copy(), starts[known[starts]]
    regions[at[old]] = seen[known[starts]]
    new = starts[~known[starts]]
    more = Sights.of_identities(group[new], identity[new], seen[~known[starts]], arrivals.time[rows[new]])
    now = state.groups.clock_after(arrivals.group, arrivals.time)
    sights = sights.with_columns(regions=regions)
    sights = Sights.concat([sights.take(sights.time >= now[sights.group] - horizon), more])
    return state.with_sights(sights.take(np.lexsort((sights.first, sights.group)))), disposition, reason


def within_horizon(policy: FifoMerged, arrivals: Arrivals) -> Bools:
    """The arrivals that can be judged together: the first of their group is remembered as long as any of them is asked about."""
    starts = np.flatnonzero(first_per_group(arrivals.group))
    first = arrivals.time[starts][_runs(starts, len(arrivals))] if len(arrivals) else arrivals.time
    return arrivals.time - first <= micros(policy.horizon)


def without_old(policy: FifoMerged, state: State, now: int) -> State:
    """The state without the ids that are remembered no longer, at a time (microseconds)."""
    kept = state.sights.time >= now - micros(policy.horizon)
    return state if kept.all() else state.with_sights(state.sights.take(kept))


def _shown(sights: Sights, groups: int, group: Ints, number: Ints) -> Ints:
    """The regions that have shown each number, of numbers that were taken in."""
    at = sights.place_of(groups, group, number)
    shown = np.full(len(number), BOTH, np.int64)
    shown[at >= 0] = sights.regions[at[at >= 0]]
    return shown


def _starts(*keys: Ints) -> Bools:
    """The rows that differ from the one before in one of the keys."""
    first = np.arange(len(keys[0])) == 0
    for key in keys:
        first[1:] |= key[1:] != key[:-1]
    return first


def _runs(starts: Ints, rows: int) -> Ints:
    begins = empty_ints(rows)
    begins[starts] = 1
    return np.cumsum(begins) - 1


def _earlier(run: Ints, region: Ints) -> Ints:
    earlier = empty_ints(len(run))
    for bit in (1, 2):
        earlier |= np.where(sum_before(run, (region & bit) // bit) > 0, bit, 0)
    return earlier
