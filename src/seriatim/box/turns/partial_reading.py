"""Decide how many held messages of a group a turn reads, and what it may conclude from them.

Behind a hole there may be a long run of held messages. A turn reads the beginning of the run, and looks up the numbers
that arrive; no other held message can leave, or be repeated, in this turn. If the whole part leaves, the turn doesn't
know whether the run goes on. Then it stores in the group's state that the group is leaving, and since when
(`Flag.LEAVING`), and ends. The next turn goes on there before it judges arrivals, as if all had left at that moment.
The rules themselves are the kernel's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from seriatim.kernel import resequence as kernel
from seriatim.kernel.groups.policy import BestEffort, Fifo, Policy, Standard, Stays, UnitOfWork
from seriatim.kernel.groups.state import Flag, Held, State
from seriatim.kernel.policies import holes
from seriatim.kernel.values.columns import Bools, Columns, Ints, order_by, sum_per_group
from seriatim.kernel.values.outcome import Disposition, EventKind, Events
from seriatim.kernel.values.time import NEVER

#: More messages than any group holds.
EVERYTHING = 2**31 - 2
_ALL_NUMBERS = 2**63 - 1


class ArrivedNumbers(NamedTuple):
    """For each group the number of arrived messages, and whether one of them contains the size of its set."""

    messages: Ints
    told: Bools


@dataclass(frozen=True, slots=True)
class HeldPart(Columns):
    """For each group of a turn the part of its held messages that was read.

    * `hidden`: the number of messages that were not read; 0: all were read.
    * `top`: the highest number up to which all held messages were read; above it only those that were looked up.
    * `held`: the number of held messages.
    * `late`: whether late messages were left out, too.
    """

    hidden: Ints
    top: Ints
    held: Ints
    late: Bools

    @classmethod
    def of(cls, held: Held, looked_up: Bools, counts: Ints, most: int) -> HeldPart:
        """Compute the part. `looked_up`: rows that were only looked up; `counts`: held messages by group; `most`: read of a kind."""
        groups = len(counts)
        first = held.take(~looked_up & ~held.late)
        is_long = np.bincount(first.group, minlength=groups) >= most
        is_late = np.bincount(held.group[held.late], minlength=groups) >= most
        hidden = np.maximum(counts - np.bincount(held.group, minlength=groups), 0)
        hidden = np.where(is_long | is_late, hidden, 0)
        highest = np.full(groups, -_ALL_NUMBERS, np.int64)
        np.maximum.at(highest, first.group, first.sequence)
        return cls(hidden, np.where(is_long & (hidden > 0), highest, _ALL_NUMBERS), counts, is_late & (hidden > 0))

    @property
    def is_whole(self) -> bool:
        return not self.hidden.any()

    def is_short(
        self, policy: Policy, state: State, come: ArrivedNumbers, now: int, *, acts: bool, most_whole: int = EVERYTHING
    ) -> bool:
        """Whether a turn needs held messages that weren't read: for a whole round or set, a resumed group, or a capacity."""
        if self.is_whole:
            return False
        long = self.hidden > 0
        goes = long & ~state.stopped()
        due = kernel.due(policy, state) <= now
        # A closing group takes in messages below its highest held one, and is closed when it holds none.
        if (long & state.groups.has(Flag.CLOSING) & (goes | (come.messages > 0))).any():
            return True
        # After a closing message all are late, and messages that wait for an opening one are judged at once.
        if isinstance(policy, Stays) and (goes | (long & (acts | (come.messages > 0)))).any():
            return True
        match policy:
            case Standard():
                many = policy.capacity is not None and len(state) > 1
                asks = goes & (self.held <= most_whole) & _opens_late(policy, state, now)
                # A late number that arrives may be among the held ones that were left out.
                return many or bool((asks | self.late & (goes | acts | (come.messages > 0))).any())
            case BestEffort(window=None, max_rows=int(most)):
                short = goes & ((come.messages == 0) | (np.bincount(state.held.group, minlength=len(state)) <= most))
            case BestEffort(window=None):
                short = goes
            case BestEffort():
                short = goes & (due | (state.groups.has(Flag.FIXED) & (policy.late == "suspend")))
            case UnitOfWork():
                size = state.groups.mark
                out = sum_per_group(state.skipped.group, state.skipped.last - state.skipped.first + 1, len(state))
                short = goes & (due | ((size > 0) & (self.held + out + come.messages >= size)))
                short |= long & (size == 0) & come.told
            case Fifo():
                short = goes
            case _:
                return False
        return acts or bool(short.any())

    def run_out(self, state: State) -> Bools:
        """The groups of which all messages that were read in order have left, while more are held."""
        return (state.groups.next > self.top) & ~state.stopped()

    def marked(self, stage: kernel.Outcome, which: Bools, moments: Ints, *, fired: bool = False) -> kernel.Outcome:
        """Return a stage of a turn on a `Standard` queue, without the results that it can't know yet."""
        groups = stage.state.groups
        # The kernel takes looked-up messages for messages behind a hole, also in a group without requests.
        out = np.where(which, self.run_out(stage.state), groups.has(Flag.LEAVING))
        flags = np.where(which, groups.flags & ~int(Flag.LEAVING), groups.flags)
        after = stage.state.with_groups(
            flags=np.where(out, flags | Flag.LEAVING, flags),
            mark=np.where(which, np.where(out, moments, 0), groups.mark),
            since=np.where(out, NEVER, groups.since),
            reports=np.where(out, 0, groups.reports),
        )
        false = (stage.events.kind == EventKind.HOLE_OPENED) & out[stage.events.group]
        events = stage.events if fired else stage.events.take(~false)
        return kernel.Outcome(after, stage.decided, events)

    def beyond(self, stage: kernel.Outcome, before: Bools) -> Ints:
        """For each group the ref of the arrival that released the last message read in order, or the highest; later ones wait."""
        # Also where a later arrival has suspended the group: it comes after the whole run.
        out = (stage.state.groups.next > self.top) & ~before
        decided = stage.decided
        last = (decided.disposition == Disposition.RELEASED) & ~decided.late & ~decided.timed
        last &= out[decided.group] & (decided.sequence == self.top[decided.group])
        found = np.full(len(self), _ALL_NUMBERS, np.int64)
        found[decided.group[last]] = decided.cause[last]
        return found

    def advanced(self, policy: Policy, state: State, until: Ints) -> kernel.Outcome:
        """Fire due timers, as far as messages were read in order."""
        out = state.held.take((state.held.sequence > self.top[state.held.group]) & ~state.held.late)
        if not isinstance(policy, Standard) or not len(out):
            return kernel.advance(policy, state, until)
        inside = state.held.take((state.held.sequence <= self.top[state.held.group]) | state.held.late)
        stage = kernel.advance(policy, state.having(held=inside), until)
        held = Held.concat([stage.state.held, out])
        held = held.take(order_by(held.group, held.sequence))
        return kernel.Outcome(stage.state.having(held=held), stage.decided, stage.events)


def _opens_late(policy: Standard, state: State, now: int) -> Bools:
    """Return groups where a timer may open a hole before the message behind it: never before the first message that is read."""
    groups = state.groups
    moment = np.where(groups.has(Flag.LEAVING), groups.mark, kernel.due(policy, state))
    late: Bools = (moment <= now) & (moment < groups.clock)
    return late & (policy.on_hole == "skip")


def go_on(policy: Policy, state: State) -> tuple[kernel.Outcome, Bools]:
    """Release more messages of groups that have been leaving since an earlier turn; and return these groups."""
    going = state.groups.has(Flag.LEAVING) & ~state.stopped()
    if not isinstance(policy, Standard) or isinstance(policy, Stays) or not going.any():
        return kernel.Outcome.unchanged(state), np.zeros(len(state), np.bool_)
    at = np.flatnonzero(going)
    before = state.select(at)
    after, decided, events = kernel.settle(policy, before, before.groups.mark)
    events = Events.concat([events, holes.events_between(policy, before, after)])
    return kernel.Outcome(after, decided, events).among(state, at), going
