"""Groups that messages open and close, for `Fifo` and `Standard`. A *stay* of a group lasts from its opening to its closing.

**Theory of operation.** Messages that a group may not judge yet are held *aside* (`Held.aside`): in a group that isn't opened
all of them, in a closing one an opening message and what came after it. They are judged when the group opens, as if they came
then, behind the opening message. The rules of the policy see neither them nor what opens and closes a group:

* A pass takes at most one stay of each group. Messages that were held aside and new arrivals go through the policy's rules at once.
* If a closing message has left, the pass is repeated with what came up to the message that let it go. Messages that left behind
  it in the same moment are late, as are held ones.
* What comes after that is late up to the next opening message, with which the next pass begins.

So a batch needs as many passes as the group with the most stays has.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import ModuleType

import numpy as np

from seriatim.kernel.groups.arrivals import NOT_SAID, Arrivals
from seriatim.kernel.groups.course import Course, Judged
from seriatim.kernel.groups.incarnation import begun_anew
from seriatim.kernel.groups.policy import Fifo, Policy, StandardStays, Stays
from seriatim.kernel.groups.state import NOTHING, Flag, Held, State
from seriatim.kernel.policies import fifo, standard
from seriatim.kernel.policies.closing import OPENS, close_emptied, for_next_stay
from seriatim.kernel.policies.late import may_suspend, suspensions
from seriatim.kernel.values.columns import (
    Bools,
    Columns,
    Ints,
    by_group,
    first_per_group,
    first_rows,
    mask_of,
    order_by,
    order_by_group,
    sum_before,
)
from seriatim.kernel.values.outcome import Decided, Disposition, EventKind, Events, Reason, no_events, no_messages
from seriatim.kernel.values.time import FOREVER, NEVER, micros

__all__ = ["CLOSES", "OPENS", "due", "fire", "go_on", "quiet", "settle", "take"]

#: The bit of a message that closes its group; of one that opens it: `OPENS`.
CLOSES = 2
_MAX = 2**63 - 1
#: The flags of a group that hands nothing out until an operator acts.
_STOPPED = int(Flag.SUSPENDED | Flag.FAULTED)


def _rules(policy: Policy) -> ModuleType:
    return fifo if isinstance(policy, Fifo) else standard


def _timeout(policy: Stays) -> int:
    return FOREVER if policy.unopened_timeout is None else micros(policy.unopened_timeout)


@dataclass(frozen=True, slots=True)
class _JudgedMessages(Columns):
    """Messages in the order in which they are judged, by group. The columns of `Arrivals`; then the cause of what is decided when one is
    judged, and whether that is a time: see `Decided`. `aside`: it was held aside before. Then no capacity rejects it, and a void is decided
    already.
    """

    group: Ints
    sequence: Ints
    ref: Ints
    time: Ints
    size: Ints
    weight: Ints
    fingerprint: Ints
    cause: Ints
    timed: Bools
    aside: Bools

    @classmethod
    def of(cls, arrivals: Arrivals) -> _JudgedMessages:
        no = np.zeros(len(arrivals), np.bool_)
        return cls(
            arrivals.group, arrivals.sequence, arrivals.ref, arrivals.time, arrivals.size, arrivals.weight,
            arrivals.fingerprint, arrivals.ref, no, no,
        )  # fmt: skip

    @classmethod
    def of_aside(cls, held: Held, time: Ints, cause: Ints, *, timed: bool) -> _JudgedMessages:
        """Messages that were held aside, by group and in order of arrival; time and cause by group. None is earlier than its arrival."""
        held = held.by_arrival()
        at = held.group
        return cls(
            at, held.sequence, held.ref, np.maximum(held.time, time[at]), held.bits, held.weight, held.fingerprint,
            cause[at], np.full(len(at), timed), np.ones(len(at), np.bool_),
        )  # fmt: skip

    @property
    def arrivals(self) -> Arrivals:
        return Arrivals(self.group, self.sequence, self.ref, self.time, self.size, self.weight, self.fingerprint)

    @property
    def bits(self) -> Ints:
        return np.where(self.size == NOT_SAID, 0, self.size)


def _opening(policy: Stays, state: State, line: _JudgedMessages) -> Bools:
    """The messages that can open their group: they are marked as opening, and are valid as its first."""
    says = (line.bits & OPENS != 0) & (line.weight > 0) & policy.opens
    if not isinstance(policy, StandardStays) or not says.any():
        return says
    step, groups = policy.increment, state.groups
    own = groups.has(Flag.UNOPENED) & (groups.has(Flag.BEGUN) | (policy.start != "first"))
    anew = policy.start if isinstance(policy.start, int) else NOTHING
    start = np.where(own, groups.first, np.where(groups.has(Flag.UNOPENED), NOTHING, anew))[line.group]
    fits = (start == NOTHING) | ((line.sequence >= start) & (line.sequence % step == start % step))
    return says & fits & (line.sequence <= _MAX - step)


def _apart(state: State) -> tuple[State, Held]:
    """Split a state into the state without the messages that are held aside, and these. The rules see no clock of an unopened group."""
    unopened = state.groups.has(Flag.UNOPENED)
    if unopened.any():
        state = state.with_groups(since=np.where(unopened, NEVER, state.groups.since))
    waits = state.held.aside
    if not waits.any():
        return state, state.held.take(waits)
    return state.having(held=state.held.take(~waits)), state.held.take(waits)


def _together(policy: Stays, inner: State, aside: Held, since: Ints) -> State:
    """Return the whole state. `since`: the clocks of unopened groups; a clock begins with the first message that is held aside."""
    held = inner.held
    if len(aside):
        held = Held.concat([held, aside])
        held = held.take(order_by(held.group, held.sequence))
    groups, unopened = inner.groups, inner.groups.has(Flag.UNOPENED)
    if unopened.any():
        waiting = _unopened_part(inner, aside).messages()
        first, has = waiting.first_arrival(len(inner)), waiting.counts(len(inner)) > 0
        begins = np.where(since != NEVER, since, np.where(first == NEVER, groups.clock, first))
        runs = has & ~groups.has(_STOPPED)
        groups = groups.with_columns(since=np.where(unopened, np.where(runs, begins, NEVER), groups.since))
    return inner.having(groups, held)


def _unopened_part(state: State, aside: Held) -> Held:
    """The messages that wait for the opening of their group, which isn't opened."""
    is_unopened = state.groups.has(Flag.UNOPENED)[aside.group]
    closing = state.groups.has(Flag.CLOSING)
    if closing.any():
        is_unopened &= ~closing[aside.group] | ~for_next_stay(state, aside)
    return aside.take(is_unopened)


# ---- messages


def quiet(policy: Stays, state: State, arrivals: Arrivals, *, clocked: bool) -> Bools:
    """The arrivals that can be judged together, because no timer can fire between them: a prefix of each group. Where timers run between
    messages, it ends with an opening message.
    """
    if not clocked:
        return np.ones(len(arrivals), np.bool_)
    inner, _ = _apart(state)
    plain = replace(policy, capacity=None) if isinstance(policy, StandardStays) else policy
    may: Bools = _rules(policy).quiet(plain, inner, arrivals, clocked=True)
    group, first = arrivals.group, first_per_group(arrivals.group)
    opening = (_JudgedMessages.of(arrivals).bits & OPENS != 0) & policy.opens
    passed = sum_before(group, opening.astype(np.int64)) > 0  # after an opening message
    shut = state.groups.has(Flag.UNOPENED | Flag.CLOSED | Flag.CLOSING)[group]
    fresh = np.full(len(state), FOREVER, np.int64)
    fresh[group[first]] = np.minimum(arrivals.time[first] + _timeout(policy), FOREVER)
    limit = np.minimum(due(policy, state), np.where(state.groups.has(Flag.UNOPENED), fresh, FOREVER))
    in_time = (arrivals.time <= limit[group]) | first
    return np.where(shut, ~passed & in_time, (may & ~passed & ~opening) | first)


def take(policy: Stays, state: State, arrivals: Arrivals) -> tuple[State, Decided, Events]:
    """Judge arrivals between which no timer fires (see `quiet`), in as many passes as a group has stays."""
    return _judged(policy, state, _JudgedMessages.of(arrivals))


def _judged(policy: Stays, state: State, line: _JudgedMessages) -> tuple[State, Decided, Events]:
    course = Course(state)
    while True:
        judged, line = _pass(policy, course.state, line)
        state, busy = course.go(*judged), np.unique(line.group)
        if len(busy) and 2 * len(busy) < len(state):
            line = line.with_columns(group=np.searchsorted(busy, line.group))
            course.go_among(busy, *_judged(policy, state.select(busy), line))
        elif len(busy):
            continue
        return course.judged()


def _pass(policy: Stays, state: State, line: _JudgedMessages) -> tuple[Judged, _JudgedMessages]:
    """Judge messages through at most one stay of each group; return those left for the next pass."""
    since, whole = state.groups.since, line
    inner, aside = _apart(state)
    decided, events = [no_messages()], [no_events()]
    ended = inner.groups.has(Flag.CLOSED) & inner.groups.has(Flag.COMPLETE)
    first = first_rows(_opening(policy, inner, line), line.group, len(state))
    begins = ended & (first < len(line))
    if begins.any():
        early = begins[line.group] & (np.arange(len(line)) < first[line.group])
        inner, out = _late(policy, inner, line.take(early))
        decided.append(out)
        rows = np.flatnonzero(begins)
        inner, line = begun_anew(policy, inner, rows, inner.groups.clock[rows]), line.take(~early)

    # Messages that a group may not judge yet are held aside.
    waits, later = _waits(policy, inner, aside, line)
    line, left = line.take(~later), line.take(later)
    waits = waits[~later]
    if waits.any():
        inner, aside, out = _put_aside(policy, inner, aside, line.take(waits))
        decided.append(out)
        line = line.take(~waits)
    if inner.groups.has(Flag.UNOPENED)[line.group].any():
        over = inner.groups.has(Flag.UNOPENED) & inner.groups.has(Flag.CLOSING)
        inner, out = _late(policy, inner, line.take(over[line.group]))  # nothing is missing there
        decided.append(out)
        line = line.take(~over[line.group])
        inner, aside, line = _opened(inner, aside, line)

    inner, out, told, more = _through(policy, inner, line)
    decided.append(out)
    events.append(told)
    state, closed = close_emptied(policy, _together(policy, inner, aside, since))
    events.append(closed)
    cause = _last_causes(state, decided)
    state, woken = _woken(policy, state, cause, _times_of(whole, cause, state.groups.clock), timed=False)
    line = _JudgedMessages.concat([woken, more, left])
    line = line.take(order_by_group(line.group))
    tail = _tail(policy, state, line)
    if tail.any():
        state, out = _late(policy, state, line.take(tail))
        decided.append(out)
        line = line.take(~tail)
    return (state, Decided.concat(decided), Events.concat(events)), line


def _opened(inner: State, aside: Held, line: _JudgedMessages) -> tuple[State, Held, _JudgedMessages]:
    """Open the groups whose first message is an opening one: it goes first, then the messages held aside, as if they arrived now."""
    opens = inner.groups.has(Flag.UNOPENED)
    heads = np.flatnonzero(first_per_group(line.group) & opens[line.group])
    opens = mask_of(len(inner), line.group[heads])
    time, cause, timed = (np.zeros(len(inner), np.int64) for _ in range(3))
    time[line.group[heads]], cause[line.group[heads]] = line.time[heads], line.cause[heads]
    timed[line.group[heads]] = line.timed[heads]
    free = opens[aside.group]
    freed = _JudgedMessages.of_aside(aside.take(free), time, cause, timed=False)
    freed = freed.with_columns(timed=timed[freed.group] != 0)
    part = np.where(opens[line.group], 2, 0)
    part[heads] = 0
    part = np.concatenate([part, np.ones(len(freed), np.int64)])
    both = _JudgedMessages.concat([line, freed])
    order = np.lexsort((np.arange(len(both)), part, both.group))
    flags = np.where(opens, inner.groups.flags & ~int(Flag.UNOPENED), inner.groups.flags)
    return inner.with_groups(flags=flags), aside.take(~free), both.take(order)


def _waits(policy: Stays, inner: State, aside: Held, line: _JudgedMessages) -> tuple[Bools, Bools]:
    """The messages that are held aside, and those that are left to the next pass. Of a group that isn't opened what comes before an opening
    message is held aside; of one that is stopped or closing that one, too, and what comes after it. An earlier message may close the group.
    """
    none = np.zeros(len(line), np.bool_)
    groups = inner.groups
    unopened, closing = groups.has(Flag.UNOPENED), groups.has(Flag.CLOSING) & policy.opens
    if not unopened.any() and not closing.any():
        return none, none
    place, first = np.arange(len(line)), first_rows(_opening(policy, inner, line), line.group, len(inner))
    stopped = groups.has(_STOPPED)
    waits = (unopened & ~closing)[line.group] & (stopped[line.group] | (place < first[line.group]))
    has_next = mask_of(len(inner), aside.group[aside.bits & OPENS != 0])
    starts = np.flatnonzero(first_per_group(line.group))
    begins = by_group(len(inner), 0, line.group[starts], starts)
    behind = closing[line.group] & (has_next[line.group] | (place >= first[line.group]))
    at_once = has_next | (first == begins)
    return waits | (behind & at_once[line.group]), behind & ~at_once[line.group]


def _put_aside(policy: Stays, inner: State, aside: Held, line: _JudgedMessages) -> tuple[State, Held, Decided]:
    """Hold messages aside, as many as the capacity allows, and the first opening one; a void is decided, and its place waits."""
    void = line.weight == 0
    full = np.zeros(len(line), np.bool_)
    if isinstance(policy, StandardStays) and policy.capacity is not None:
        room = policy.capacity - aside.counts(len(inner))
        full = ~void & ~line.aside & (sum_before(line.group, (~void).astype(np.int64)) >= room[line.group])
        heads = first_rows(_opening(policy, inner, line), line.group, len(inner))
        heads[aside.group[aside.bits & OPENS != 0]] = len(line)
        full &= np.arange(len(line)) != heads[line.group]
    clock = inner.groups.clock.copy()
    np.maximum.at(clock, line.group, line.time)
    kept = line.take(~full if isinstance(policy, StandardStays) else ~void)
    no = np.zeros(len(kept), np.bool_)
    added = Held(kept.group, kept.sequence, kept.ref, no, ~no, kept.time, kept.weight, kept.fingerprint, kept.bits)
    rejected = line.take(full | (void & ~line.aside))
    fate = np.where(rejected.weight > 0, Disposition.REJECTED, Disposition.VOID)
    why = np.where(rejected.weight > 0, Reason.CAPACITY, Reason.LEAVES_NOTHING)
    out = Decided.of(rejected, fate, why, rejected.cause)
    held = Held.concat([aside, added])
    return inner.with_groups(clock=clock), held.by_arrival(), out.with_columns(timed=rejected.timed)


def _late(policy: Stays, inner: State, line: _JudgedMessages) -> tuple[State, Decided]:
    """Set aside the messages that arrive for a closed group."""
    if not len(line):
        return inner, no_messages()
    flags = inner.groups.flags.copy()
    flags[line.group] |= Flag.CLOSED
    shut = inner.having(inner.groups.with_columns(flags=flags), Held.empty())  # the held messages don't matter
    after, out, _ = _rules(policy).take(policy, shut, line.arrivals)
    return inner.with_groups(clock=after.groups.clock), _caused(out, line)


def _tail(policy: Stays, inner: State, line: _JudgedMessages) -> Bools:
    """The messages after the closing of their group, up to the next opening message: nothing can happen to them."""
    closed = inner.groups.has(Flag.CLOSED)
    if not len(line) or not closed.any():
        return np.zeros(len(line), np.bool_)
    again = _opening(policy, inner, line) & inner.groups.has(Flag.COMPLETE)[line.group]
    first = first_rows(again, line.group, len(inner))
    return closed[line.group] & (np.arange(len(line)) < first[line.group])


def _through(policy: Stays, inner: State, line: _JudgedMessages) -> tuple[State, Decided, Events, _JudgedMessages]:
    """Apply the rules of the policy to messages up to the first closing one that leaves; return the rest."""
    now = np.ones(len(line), np.bool_)
    if not len(line):
        return inner, no_messages(), no_events(), line
    exempt: Policy = policy
    if isinstance(policy, StandardStays) and policy.capacity is not None and line.aside.any():
        # Messages that were held aside are no new arrivals: no capacity rejects them, nor the message that has opened the group.
        rows = np.flatnonzero(line.aside)
        now = np.arange(len(line)) <= by_group(len(inner), -1, line.group[rows], rows)[line.group]
        exempt = replace(policy, capacity=None)
    now &= _rules(policy).quiet(exempt, inner, line.arrivals, clocked=False) | ~now
    line, left = line.take(now), line.take(~now)
    bits = _Bits.of(line, inner.held)
    after, out, events = _taken(exempt, inner, line)
    place = bits.first_closing(policy, out, len(inner))
    if (place >= 0).any():
        # Up to the message that let the closing one leave.
        closes = np.flatnonzero(place >= 0)
        let_go = by_group(len(inner), len(line), closes, _places(line.ref, out.cause[place[closes]]))
        passes = np.arange(len(line)) <= let_go[line.group]
        left = _JudgedMessages.concat([line.take(~passes), left])
        left = left.take(order_by_group(left.group))
        line = line.take(passes)
        after, out, events = _taken(exempt, inner, line)
        place = bits.first_closing(policy, out, len(inner))
        after, out, events = _closed(policy, after.groups.next, after, out, place, events)
    out = _caused(out, line)
    return after, out, events, left


def _taken(policy: Policy, inner: State, line: _JudgedMessages) -> tuple[State, Decided, Events]:
    arrivals = line.arrivals
    after, out, events = _rules(policy).take(policy, inner, arrivals)
    if may_suspend(policy):
        events = Events.concat([events, suspensions(inner, after, arrivals)])
    return after, out, events


@dataclass(frozen=True, slots=True)
class _Bits:
    ref: Ints
    bits: Ints

    @classmethod
    def of(cls, line: _JudgedMessages | None, held: Held) -> _Bits:
        ref = held.ref if line is None else np.concatenate([held.ref, line.ref])
        bits = held.bits if line is None else np.concatenate([held.bits, line.bits])
        order = np.argsort(ref, kind="stable")
        return cls(ref[order], bits[order])

    def first_closing(self, policy: Stays, out: Decided, groups: int) -> Ints:
        """For each group the row of the first closing message that has left; -1: none has."""
        firsts = np.full(groups, -1, np.int64)
        if not policy.closes or not len(out):
            return firsts
        rows = np.flatnonzero(out.disposition == Disposition.RELEASED)
        says = self.bits[np.searchsorted(self.ref, out.ref[rows])] & CLOSES != 0
        rows = rows[says][::-1]  # backwards, so that the first of a group is written last
        firsts[out.group[rows]] = rows
        return firsts


def _closed(
    policy: Stays, before: Ints, after: State, out: Decided, place: Ints, events: Events
) -> tuple[State, Decided, Events]:
    """Close groups behind a message that has left: messages that left behind it in the same moment are late, as are held ones. `before`:
    the next number of each group when a closing message leaves that is late. No number has passed behind it.
    """
    ends = place >= 0
    rows = np.arange(len(out))
    closes = ends[out.group] & (out.disposition == Disposition.RELEASED)
    behind = closes & (rows > place[out.group])
    groups, at = after.groups, place[ends]
    flags = np.where(ends, (groups.flags | Flag.CLOSED | Flag.COMPLETE) & ~int(Flag.CLOSING), groups.flags)
    since, reports = np.where(ends, NEVER, groups.since), np.where(ends, 0, groups.reports)
    ordinal, last, following = groups.ordinal.copy(), groups.last.copy(), groups.next.copy()
    ordinal[ends] = out.ordinal[at]
    if isinstance(policy, StandardStays):
        last[ends] = out.sequence[at]
        following[ends] = np.where(out.late[at], before[ends], out.sequence[at] + policy.increment)
    held = after.held.take(ends[after.held.group]).messages().by_arrival()
    cause, timed = np.zeros(len(after), np.int64), np.zeros(len(after), np.bool_)
    cause[ends], timed[ends] = out.cause[at], out.timed[at]
    late = Decided.of(held, Disposition.LATE, Reason.GROUP_CLOSED, cause[held.group])
    late = late.with_columns(timed=timed[held.group])
    out = out.with_columns(
        disposition=np.where(behind, Disposition.LATE, out.disposition),
        reason=np.where(behind, Reason.GROUP_CLOSED, out.reason),
        ordinal=np.where(behind, 0, out.ordinal),
        late=out.late & ~behind,
    )
    state = after.having(
        groups.with_columns(flags=flags, since=since, reports=reports, ordinal=ordinal, last=last, next=following),
        after.held.take(~ends[after.held.group]),
    )
    ends_now = np.flatnonzero(ends)
    closed = Events.of(EventKind.CLOSED, ends_now, None, None, groups.clock[ends_now])
    never = (events.kind == EventKind.VOID) & ends[events.group] & (events.first >= following[events.group])
    return state, Decided.concat([out, late]), Events.concat([events.take(~never), closed])


def _places(refs: Ints, wanted: Ints) -> Ints:
    order = np.argsort(refs, kind="stable")
    places: Ints = order[np.minimum(np.searchsorted(refs, wanted, sorter=order), len(refs) - 1)]
    return places


def _caused(out: Decided, line: _JudgedMessages) -> Decided:
    """Decisions with the causes of a line, without those on voids that are decided already."""
    if not len(out) or not line.aside.any():
        return out
    place = _places(line.ref, out.cause)
    out = out.with_columns(cause=line.cause[place], timed=line.timed[place])
    own = _places(line.ref, out.ref)
    again = (line.ref[own] == out.ref) & line.aside[own] & (line.weight[own] == 0)
    return out.take(~again)


def _last_causes(state: State, decided: list[Decided]) -> Ints:
    """The last arrival of each group that let a message leave."""
    cause = np.full(len(state), -1, np.int64)
    for part in decided:
        np.maximum.at(cause, part.group, np.where(part.timed, -1, part.cause))
    return cause


def _times_of(line: _JudgedMessages, cause: Ints, clock: Ints) -> Ints:
    """For each group the time of the message that is a cause."""
    if not len(line):
        return clock
    order = np.argsort(line.cause, kind="stable")
    places = order[np.minimum(np.searchsorted(line.cause, cause, sorter=order), len(line) - 1)]
    return np.where(line.cause[places] == cause, line.time[places], clock)


def _woken(policy: Stays, state: State, cause: Ints, time: Ints, *, timed: bool) -> tuple[State, _JudgedMessages]:
    """Take out what was held aside in groups that go on: those that have closed, and those that an opening message waits in. `cause`,
    `time`: the messages that start them, by group, and the times.
    """
    groups, aside = state.groups, state.held.aside
    is_woken = groups.has(Flag.CLOSED) & groups.has(Flag.COMPLETE)
    shut = groups.has(Flag.UNOPENED) & ~groups.has(_STOPPED | Flag.CLOSING)
    if aside.any() and shut.any():
        held = state.held.take(aside & shut[state.held.group])
        line = _JudgedMessages.of_aside(held, time, cause, timed=timed)
        is_woken[line.group[_opening(policy, state, line)]] = True
    out = aside & is_woken[state.held.group]
    woken = state.held.take(out)
    # The places of voids in a group that never opened are nothing to judge.
    woken = woken.take(~groups.has(Flag.CLOSED)[woken.group] | for_next_stay(state, state.held)[out])
    line = _JudgedMessages.of_aside(woken, time, cause, timed=timed)
    if not out.any():
        return state, line
    return state.having(held=state.held.take(~out)), line


# ---- time, and actions


def due(policy: Stays, state: State) -> Ints:
    """The time of each group's next timer: of its hole, or, while it isn't opened, of the messages that wait for that."""
    inner, _ = _apart(state)
    moments: Ints = _rules(policy).due(policy, inner)
    if policy.unopened_timeout is None:
        return moments
    unopened = state.groups.has(Flag.UNOPENED) & (state.groups.since != NEVER)
    return np.where(unopened, state.groups.since + _timeout(policy), moments)


def fire(policy: Stays, state: State, until: Ints) -> tuple[State, Decided, Events]:
    course = Course(state)
    while True:
        ripe = due(policy, state) <= until
        if not ripe.any():
            return course.judged()
        state, late = _timed_out(policy, state, ripe)
        course.note(late)
        state, out, told = _fired(policy, state, until)
        course.go(state, out, told)
        moment = np.full(len(state), NEVER, np.int64)
        for part in (late, out):
            np.maximum.at(moment, part.group, part.cause)
        state = course.go(*go_on(policy, state, np.where(moment == NEVER, state.groups.clock, moment)))


def _timed_out(policy: Stays, state: State, ripe: Bools) -> tuple[State, Decided]:
    """Set aside the messages that have waited too long for the opening of their group."""
    ripe = ripe & state.groups.has(Flag.UNOPENED)
    if not ripe.any():
        return state, no_messages()
    moments = due(policy, state)
    inner, aside = _apart(state)
    waiting = ripe[aside.group] & (aside.time <= moments[aside.group])
    if state.groups.has(Flag.CLOSING).any():
        waiting &= ~(state.groups.has(Flag.CLOSING)[aside.group] & for_next_stay(state, aside))
    expired = aside.take(waiting).messages().by_arrival()
    out = Decided.of(expired, Disposition.LATE, Reason.NOT_OPENED, moments[expired.group], timed=True)
    clock = np.where(ripe, np.maximum(inner.groups.clock, moments), inner.groups.clock)
    since = np.where(ripe, NEVER, state.groups.since)
    return _together(policy, inner.with_groups(clock=clock), aside.take(~waiting), since), out


def _fired(policy: Stays, state: State, until: Ints) -> tuple[State, Decided, Events]:
    """Fire the timers of the policy, in each group up to the one that lets a closing message leave."""
    inner, aside = _apart(state)
    bits = _Bits.of(None, inner.held)
    after, out, events = _rules(policy).fire(policy, inner, until)
    place = bits.first_closing(policy, out, len(state))
    if (place >= 0).any():
        ends = place >= 0
        until = until.copy()
        until[ends] = out.cause[place[ends]]
        after, out, events = _rules(policy).fire(policy, inner, until)
        place = bits.first_closing(policy, out, len(state))
        never = (events.kind == EventKind.HOLE_OPENED) & ends[events.group] & (events.at >= until[events.group])
        events = events.take(~never)
        after, out, events = _closed(policy, inner.groups.next, after, out, place, events)
    return _together(policy, after, aside, state.groups.since), out, events


def go_on(policy: Stays, state: State, now: Ints) -> tuple[State, Decided, Events]:
    """After a timer or an action: close groups that hold nothing, and judge messages held aside where their wait is over."""
    state, closed = close_emptied(policy, state)
    state, line = _woken(policy, state, now, now, timed=True)
    course = Course(state)
    course.note(events=closed.with_columns(at=now[closed.group]))
    if len(line):
        course.go(*_judged(policy, state, line))
    return course.judged()


def settle(policy: Stays, state: State, now: Ints) -> tuple[State, Decided, Events]:
    """After an operator's action: messages that may leave do, up to a closing message, and clocks begin anew."""
    inner, aside = _apart(state)
    bits = _Bits.of(None, inner.held)
    after, out, events = _rules(policy).settle(policy, inner, now)
    after = after.with_groups(clock=np.maximum(after.groups.clock, now))
    place = bits.first_closing(policy, out, len(state))
    if (place >= 0).any():
        after, out, events = _closed(policy, inner.groups.next, after, out, place, events)
    since = np.where(state.groups.has(Flag.UNOPENED), now, NEVER)
    state, more, told = go_on(policy, _together(policy, after, aside, since), now)
    return state, Decided.concat([out, more]), Events.concat([events, told])
