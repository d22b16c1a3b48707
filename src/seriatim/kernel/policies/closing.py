"""Groups that are to close: the messages that they still take in, and when they are closed. One rule for all policies.

A closing group takes in missing numbers below the highest one that it holds, and nothing else. Its held messages go on by
the usual rules and clocks. When it holds no message any more it is closed; released messages are handed out all the same.
"""

from __future__ import annotations

import numpy as np

from seriatim.kernel.groups.arrivals import Arrivals
from seriatim.kernel.groups.policy import FifoStays, Policy, StandardStays, UnitOfWork
from seriatim.kernel.groups.state import NOTHING, Flag, Held, State
from seriatim.kernel.values.columns import Bools, Ints, by_group
from seriatim.kernel.values.outcome import Disposition, EventKind, Events, Reason, no_events
from seriatim.kernel.values.time import FOREVER, NEVER

#: The bit of a message that opens its group, see ``stays.py``.
OPENS = 1
#: The flags of a group that takes in only messages that it misses.
OVER = int(Flag.CLOSED | Flag.CLOSING)
_CLOSING = int(Flag.CLOSING)


def close_emptied(policy: Policy, state: State) -> tuple[State, Events]:
    """Close the closing groups that hold no message. A suspended or faulted group shows that state until it goes on."""
    flags = state.groups.flags
    closing = (flags & _CLOSING) != 0
    if not closing.any():
        return state, no_events()
    held = state.held
    if isinstance(policy, FifoStays | StandardStays) and held.aside.any():
        held = held.take(~for_next_stay(state, held))
    ended = closing & ~state.groups.has(Flag.SUSPENDED | Flag.FAULTED) & (held.counts(len(state)) == 0)
    # A set that is complete, or whose time is over, closes its group itself.
    closed = ended & ~state.groups.has(Flag.CLOSED)
    ending = Flag.CLOSED if isinstance(policy, UnitOfWork) else Flag.CLOSED | Flag.COMPLETE
    flags = np.where(closed, (flags | int(ending)) & ~int(Flag.UNOPENED), flags)
    flags = np.where(ended | (closing & state.groups.has(Flag.CLOSED)), flags & ~int(Flag.CLOSING), flags)
    rows, since = np.flatnonzero(closed), np.where(closed, NEVER, state.groups.since)
    return state.with_groups(flags=flags, since=since), Events.of(
        EventKind.CLOSED, rows, None, None, state.groups.clock[rows]
    )


def for_next_stay(state: State, held: Held) -> Bools:
    """The messages that wait for the next stay of their group: an opening one that is held aside, and later messages."""
    head = np.full(len(state), FOREVER, np.int64)
    aside = held.aside
    says = aside & (held.bits & OPENS != 0)
    np.minimum.at(head, held.group[says], held.ref[says])
    return aside & (held.ref >= head[held.group])


def shut_out(state: State, arrivals: Arrivals, first: Ints) -> Bools:
    """The arrivals that are late because their group is closed, or closing: all but missing numbers below the highest held one. Of a number
    that comes twice only the first is missing: see `late_repeats`. `first`: the lowest number that each arrival's group may miss.
    """
    group, sequence = arrivals.group, arrivals.sequence
    over = state.groups.has(OVER)[group]
    closing = state.groups.has(_CLOSING)
    if not closing.any():
        return over
    held = state.held.take(~state.held.late & ~state.held.waits & (state.held.weight > 0))
    highest = by_group(len(state), NOTHING, held.group, held.sequence)  # ascends within a group
    missing = closing[group] & (sequence >= first) & (sequence < highest[group])
    missing &= ~state.skipped.contain(group, sequence)
    return over & ~missing


def late_repeats(
    state: State, arrivals: Arrivals, twice: Ints, disposition: Ints, reason: Ints, known: Bools | None = None
) -> None:
    """Mark arrivals that repeat a number of a closing group as late: the number isn't missing, so the usual rule applies. `known`: those
    that aren't late, because regions send a message twice.
    """
    twice = twice[state.groups.has(Flag.CLOSING)[arrivals.group[twice]]]
    if known is not None:
        twice = twice[~known[twice]]
    disposition[twice], reason[twice] = Disposition.LATE, Reason.GROUP_CLOSED
