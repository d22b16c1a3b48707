"""Numbers as producers have them, for `Standard`: spans, turn-overs, epochs, restarts, bases, messages without a number, late beginnings.

**Theory of operation.** Most messages only have to be understood: a number that turned over is unwrapped, and then the rules of
``standard.py`` apply. Some are *odd*: they change what the next number is, or what numbers mean. `quiet` cuts a group's messages so that an
odd one stands alone; then each rule is an operation on arrays over all groups that have one. Odd are bases, messages with which a producer
begins anew (of another epoch, or markers), spans that overlap others, and late ones that are delivered or held.

A *life* of a group lasts until its numbers begin anew. In a stopped group nothing may leave, so the message that ends a life waits, and
all that
comes after it: these messages form a *line*, and are judged when the group goes on, as if they came then. A group that doesn't know its
first
number yet *gathers*: it holds everything.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from seriatim.kernel.groups.arrivals import NOT_SAID, Arrivals, undecided
from seriatim.kernel.groups.course import Course, Judged, among
from seriatim.kernel.groups.incarnation import begun_anew
from seriatim.kernel.groups.numbers import BASE, IN_LINE, OF_ENDED, RESTARTS, UNNUMBERED
from seriatim.kernel.groups.policy import Policy, StandardNumbers
from seriatim.kernel.groups.state import NOTHING, Flag, Held, Ranges, Remembered, State
from seriatim.kernel.policies import holes, standard
from seriatim.kernel.policies.closing import OVER
from seriatim.kernel.policies.conflicts import Likeness, compared, conflicts
from seriatim.kernel.policies.holes import passed_voids, taken
from seriatim.kernel.policies.late import may_suspend, suspensions
from seriatim.kernel.values.columns import (
    Bools,
    Ints,
    by_group,
    empty_ints,
    first_per_group,
    last_per_group,
    mask_of,
    none_so_far,
    order_by,
    order_by_group,
    put_first,
    rank_in_group,
    running_latest,
    sum_before,
)
from seriatim.kernel.values.outcome import (
    Decided,
    Disposition,
    EventKind,
    Events,
    MessageRows,
    Reason,
    no_events,
    no_messages,
)
from seriatim.kernel.values.time import FOREVER, NEVER, micros

_MAX = 2**63 - 1
#: By disposition whether a message wasn't taken in.
_IS_REFUSED = np.isin(
    np.arange(len(Disposition)), (Disposition.LATE, Disposition.DUPLICATE, Disposition.INVALID, Disposition.REJECTED)
)


# ---- what a message means


def unwrapped(modulus: int, arrivals: Arrivals, top: Ints, step: int = 1) -> tuple[Arrivals, Ints, Bools]:
    """Unwrap numbers that turn over.

    Args:
        modulus: how many numbers there are.
        top: for each group the highest number that it has taken in; `NOTHING`: there is none, and its first message stands in.
        step: from one number to the next.

    Returns:
        the messages with their numbers; the `Reason` for which each is invalid, 0 if it is valid; and those up to which the numbers are
        sure: whichever of the messages before it is taken in, a number is the same.
    """
    group, raw = arrivals.group, arrivals.sequence
    reason, more = empty_ints(len(arrivals)), empty_ints(len(arrivals))
    reason[(raw < 0) | (raw >= modulus)] = Reason.NOT_OF_MODULUS
    if arrivals.through is not None:
        reason[(arrivals.through < 0) | (arrivals.through >= modulus)] = Reason.NOT_OF_MODULUS
        more = (arrivals.through - raw) % modulus
        reason[(2 * more > modulus) & (reason == 0)] = Reason.ENDS_BEFORE
    numbered = arrivals.bits & (UNNUMBERED | RESTARTS) == 0
    valid = (reason == 0) & numbered
    if (top == NOTHING).any():
        # What is off the step is invalid, so that it is nobody's reference.
        own = put_first(np.zeros(len(top), np.int64), valid & (more % step == 0), group, raw)
        top = np.where(top == NOTHING, own, top)
    # How far each is above the highest number of its group, the short way round; a number that is none is anywhere.
    ahead = np.where(reason == 0, raw, 0) - (top % modulus)[group]
    ahead -= modulus * ((2 * ahead > modulus).astype(np.int64) - (2 * ahead <= -modulus))
    halfway = 2 * ahead == modulus
    known = top[group]
    number = known + ahead
    sure = np.ones(len(arrivals), np.bool_)
    # All are sure where they are closer together than half the modulus, as nearly always.
    if len(arrivals) and 2 * (max(int((ahead + more).max()), 0) - min(int(ahead.min()), 0)) >= modulus:
        reason[halfway & (reason == 0)] = Reason.HALF_AWAY
        highest = running_latest(group, np.where((reason == 0) & numbered, np.maximum(number + more, known), known))
        before = np.where(first_per_group(group), known, np.concatenate([highest[:1], highest[:-1]]))
        half = halfway & (before > known)
        sure = none_so_far(group, ((2 * (before - number) >= modulus) | half) & numbered)
    found = arrivals.with_columns(sequence=number)
    return found if arrivals.through is None else found.with_columns(through=number + more), reason, sure


def _understood(policy: StandardNumbers, state: State, arrivals: Arrivals) -> tuple[Arrivals, Ints, Bools]:
    """Messages of the present lives with their numbers, see `unwrapped`."""
    if policy.modulus is None:
        return arrivals, empty_ints(len(arrivals)), np.ones(len(arrivals), np.bool_)
    return unwrapped(policy.modulus, arrivals, _highest(policy, state), policy.increment)


def _highest(policy: StandardNumbers, state: State) -> Ints:
    """For each group the highest number that it has taken in; before there is one, the one with which it begins, if that is known."""
    first = np.where(state.groups.has(Flag.BEGUN) | (not policy.finds_start), state.groups.first, NOTHING)
    top = state.known_lives.top
    return np.where(top == NOTHING, first, top)


def _other_epoch(policy: StandardNumbers, state: State, arrivals: Arrivals) -> Bools:
    """The messages that aren't of the present epoch of their group; without those that have no number."""
    if not policy.epochs or arrivals.epoch is None:
        return np.zeros(len(arrivals), np.bool_)
    other: Bools = arrivals.epoch != state.known_lives.epoch[arrivals.group]
    return other & (arrivals.bits & UNNUMBERED == 0) if other.any() else other


def _gathering(policy: StandardNumbers, state: State) -> Bools:
    """The groups that don't know their first number, and hold everything until they do."""
    if not policy.gathers:
        return np.zeros(len(state), np.bool_)
    return ~state.groups.has(Flag.BEGUN)


def _has_line(state: State) -> Bools:
    if not state.held.waits.any():
        return np.zeros(len(state), np.bool_)
    return mask_of(len(state), state.held.group[state.held.bits & IN_LINE != 0])


def why_held(policy: StandardNumbers, state: State) -> Ints:
    """The `Reason` for each held row of groups that aren't stopped."""
    until_known = Reason.SETTLING if policy.start == "lowest" else Reason.UNTOLD
    gathers = _gathering(policy, state)[state.held.group]
    return np.where(gathers, int(until_known), int(Reason.BEHIND_HOLE))


# ---- timers


def due(policy: StandardNumbers, state: State) -> Ints:
    """The time of each group's next timer; `FOREVER` if none runs."""
    gathering = _gathering(policy, state)
    moments = holes.due(policy, state)
    if not gathering.any():
        return moments
    runs = gathering & (state.groups.since != NEVER) & (policy.settle is not None)
    begins = np.where(runs, np.minimum(state.groups.since, FOREVER - _settle(policy)) + _settle(policy), FOREVER)
    return np.where(gathering, begins, moments)


def _settle(policy: StandardNumbers) -> int:
    return FOREVER if policy.settle is None else micros(policy.settle)


def fire(policy: StandardNumbers, state: State, until: Ints) -> Judged:
    gathering = _gathering(policy, state)
    if not gathering.any():
        return holes.fire(policy, state, until)
    course, moments = Course(state), due(policy, state)
    begins = gathering & (moments <= until)
    if begins.any():
        state = course.go(*_begin_at_lowest(policy, state, begins, moments))
    ready = np.flatnonzero(~_gathering(policy, state))
    course.go_among(ready, *holes.fire(policy, state.select(ready), until[ready]))
    return course.judged()


def _begin_at_lowest(policy: StandardNumbers, state: State, which: Bools, moments: Ints) -> Judged:
    """Groups have settled: they begin at the lowest number that they hold."""
    rows = np.flatnonzero(which)
    part, now = state.select(rows), moments[rows]
    part, decided = _fix_start(policy, part, np.ones(len(part), np.bool_))
    decided = decided.with_columns(cause=now[decided.group], timed=np.ones(len(decided), np.bool_))
    part = part.with_groups(clock=np.maximum(part.groups.clock, now))
    part, out, told = _let_go(policy, part, now)
    has, first, last = holes.holes(policy, part)
    opened = np.flatnonzero(has)
    opening = Events.of(EventKind.HOLE_OPENED, opened, first[opened], last[opened], part.groups.since[opened])
    decided, events = Decided.concat([decided, out]), Events.concat([told, opening])
    return among(state, rows, part, decided, events)


def _fix_start(policy: StandardNumbers, state: State, which: Bools) -> tuple[State, Decided]:
    """The state with some groups that begin at their lowest held number; and what is off the step from there, which is invalid."""
    held, groups = state.held, state.groups
    counts = ~held.late & ~held.waits & which[held.group]
    begins = mask_of(len(state), held.group[counts])
    first = put_first(groups.first.copy(), counts, held.group, held.sequence)
    state = state.with_groups(
        first=first,
        next=np.where(begins, first, groups.next),
        flags=np.where(begins, groups.flags | int(Flag.BEGUN), groups.flags),
        since=np.where(begins, NEVER, groups.since),
    )
    return _without_off_step(policy, state, begins) if policy.increment > 1 else (state, no_messages())


def _without_off_step(policy: StandardNumbers, state: State, which: Bools) -> tuple[State, Decided]:
    """The state of some groups that have begun, without the held messages that are off the step, which are invalid."""
    held, step = state.held, policy.increment
    first = state.groups.first[held.group] % step
    off = which[held.group] & ~held.late & ~held.waits & ((held.sequence % step != first) | (held.ends % step != first))
    gone = held.take(off).messages().by_arrival()
    marks = state.skipped
    marks = marks.take(~which[marks.group] | (marks.first % step == state.groups.first[marks.group] % step))
    return state.having(held=held.take(~off), skipped=marks), Decided.of(gone, Disposition.INVALID, Reason.OFF_STEP)


def _let_go(policy: StandardNumbers, state: State, now: Ints) -> Judged:
    """What may leave leaves at a time, a time for each group."""
    before = np.full(len(state.held), -1, np.int64)
    state, released, passage = standard.release(policy, state, before, Arrivals.empty(), now=now)
    state = state.calmed(released.group)
    at, voids = passage.at, no_events()
    if not at.weight.all():
        voids = passed_voids(at, passage.free, passage.moment, now[at.group], policy.increment)
    return state, Decided.concat([released, passage.covered]), voids


# ---- messages


def quiet(policy: StandardNumbers, state: State, arrivals: Arrivals, *, clocked: bool) -> Bools:
    """The arrivals that can be judged together: a prefix of each group, at least its first. An odd one is judged alone."""
    group, first = arrivals.group, first_per_group(arrivals.group)
    understood, reason, sure = _understood(policy, state, arrivals)
    stopped, gathering = state.stopped()[group], _gathering(policy, state)[group]
    line = _has_line(state)[group]
    bits = arrivals.bits
    numbered = bits & (BASE | RESTARTS | UNNUMBERED) == 0
    odd = (bits & (BASE | RESTARTS) != 0) | _other_epoch(policy, state, arrivals)
    if may_suspend(policy):
        odd |= bits & UNNUMBERED != 0
    if policy.spans:
        odd |= _overlaps(policy, state, understood, numbered & ~odd & (reason == 0))
    full = np.zeros(len(arrivals), np.bool_)
    if policy.capacity is not None:
        rank = rank_in_group(group)
        room = (policy.capacity - state.held.counts(len(state)))[group]
        full = rank >= room
        odd |= full & (gathering | (stopped & ~numbered))
    may = none_so_far(group, np.where(line, full, odd)) | first
    may &= line | sure | first
    if clocked and gathering.any():
        may &= ~gathering | arrivals.in_time(due(policy, state), _settle(policy))
    others = ~line & ~gathering
    if others.all():
        return may & standard.quiet(policy, state, understood, clocked=clocked)
    if others.any():
        rows = np.flatnonzero(others)
        may[rows] &= standard.quiet(policy, state, understood.take(rows), clocked=clocked)
    return may


def _overlaps(policy: StandardNumbers, state: State, arrivals: Arrivals, which: Bools) -> Bools:
    """Of some arrivals those that share a number with another message of their group, unless both cover the same.

    And those that begin below the first number of their group, which that number then is.
    """
    group, ends, gathers = arrivals.group, arrivals.ends, _gathering(policy, state)[arrivals.group]
    below = ~gathers & (ends < state.groups.next[group])
    found = which & below & (policy.late != "set_aside")
    if policy.finds_start:
        # Of a group that is new, the first that comes.
        first = put_first(state.groups.first.copy(), which, group, arrivals.sequence)
        first = np.where(state.groups.has(Flag.BEGUN), state.groups.first, first)[group]
        found |= which & ~gathers & (arrivals.sequence < first) & (ends >= first)
    rows = np.flatnonzero(which & ~below)
    if not len(rows):
        return found
    touched = mask_of(len(state), arrivals.group[rows])
    group, first, last = arrivals.group[rows], arrivals.sequence[rows], ends[rows]
    if len(state.held) or len(state.skipped):
        held = state.held.take(touched[state.held.group] & ~state.held.late & ~state.held.waits)
        marked = state.skipped.take(touched[state.skipped.group])
        marked = marked.take(marked.last >= state.groups.next[marked.group])
        group = np.concatenate([group, held.group, marked.group])
        first = np.concatenate([first, held.sequence, marked.first])
        last = np.concatenate([last, held.ends, marked.last])
    order = order_by(group, first)
    group, first, last = group[order], first[order], last[order]
    begins = first_per_group(group)
    if (begins[1:] | (first[1:] > last[:-1])).all():  # in order of the first ones none reaches the next
        return found
    latest = running_latest(group, last)
    begins[1:] |= first[1:] > latest[:-1]
    differs = np.zeros(len(group), np.bool_)
    differs[1:] = ~begins[1:] & ((first[1:] != first[:-1]) | (last[1:] != last[:-1]))
    heads = np.flatnonzero(begins)
    mixed = np.repeat(np.logical_or.reduceat(differs, heads), np.diff(np.append(heads, len(group))))
    odd = order[mixed]
    found[rows[odd[odd < len(rows)]]] = True
    return found


def take(policy: StandardNumbers, state: State, arrivals: Arrivals) -> Judged:
    """Judge arrivals between which no timer fires (see `quiet`)."""
    line, before, course = _has_line(state)[arrivals.group], state, Course(state)
    if line.any():
        state = course.go(*_wait_in_line(policy, state, arrivals.take(line)))
        arrivals = arrivals.take(~line)
    odd = _other_epoch(policy, state, arrivals)
    says_bits = (arrivals.size != NOT_SAID).any()
    if says_bits:
        odd |= arrivals.bits & RESTARTS != 0
    if odd.any():
        judged, rest = _odd(policy, state, arrivals.take(odd))
        state = course.go(*judged)
        arrivals = Arrivals.concat([arrivals.take(~odd), rest])
        arrivals = arrivals.take(order_by_group(arrivals.group))
    if not len(arrivals):
        return course.judged()
    arrivals, reason, _ = _understood(policy, state, arrivals)
    highest = _highest(policy, state)
    wrong = reason > 0
    if wrong.any():
        wrong &= arrivals.bits & UNNUMBERED == 0
        course.note(Decided.of(arrivals.take(wrong), Disposition.INVALID, reason[wrong]))
        arrivals = arrivals.take(~wrong)
    bare = bases = Arrivals.empty()
    plain = arrivals
    if says_bits:
        bits = arrivals.bits
        bare, bases = arrivals.take(bits & UNNUMBERED != 0), arrivals.take(bits & BASE != 0)
        plain = arrivals.take(bits & (UNNUMBERED | BASE) == 0) if len(bare) or len(bases) else arrivals
        plain = plain.with_columns(size=np.full(len(plain), NOT_SAID, np.int64))
    state, out, told = _numbered(policy, state, plain)
    if len(bare):
        state, out = _unnumbered(policy, state, before, bare, out)
    course.go(state, out, told)
    if len(bases):
        course.go(*_bases(policy, state, bases))
    state, every, events = course.judged()
    return state if policy.modulus is None else raised(state, arrivals, every, highest), every, events


def raised(state: State, arrivals: Arrivals, decided: Decided, highest: Ints) -> State:
    """The state with the highest number that each group has taken in, where numbers turn over; `highest`: as it was before the arrivals."""
    refused = decided.ref[_IS_REFUSED[decided.disposition]]
    counts = arrivals.bits & UNNUMBERED == 0
    if len(refused):
        counts &= ~np.isin(arrivals.ref, refused)
    top = state.known_lives.top.copy()
    group = arrivals.group[counts]
    top[group] = np.maximum(top, highest)[group]
    np.maximum.at(top, group, arrivals.ends[counts])
    return state.with_lives(top=top)


def _numbered(policy: StandardNumbers, state: State, arrivals: Arrivals) -> Judged:
    gathering = _gathering(policy, state)
    if not gathering.any():
        return standard.take(policy, state, arrivals) if len(arrivals) else (state, no_messages(), no_events())
    ready, mine = np.flatnonzero(~gathering), gathering[arrivals.group]
    others, course = arrivals.take(~mine), Course(state)
    if len(others):
        others = others.with_columns(group=np.searchsorted(ready, others.group))
        state = course.go_among(ready, *standard.take(policy, state.select(ready), others))
    if mine.any():
        course.go(*_gather(policy, state, arrivals.take(mine)))
    return course.judged()


def _gather(policy: StandardNumbers, state: State, arrivals: Arrivals) -> Judged:
    """Hold what comes to groups that don't know where they begin. A full group rejects the highest number that it then has."""
    groups = state.groups
    disposition = np.full(len(arrivals), int(Disposition.HELD), np.int64)
    reason = empty_ints(len(arrivals))
    overflows = arrivals.overflow(policy.increment)
    off = ~overflows & ((arrivals.ends - arrivals.sequence) % policy.increment != 0)
    disposition[overflows | off] = Disposition.INVALID
    reason[overflows], reason[off] = Reason.SEQUENCE_OVERFLOWS, Reason.OFF_STEP
    overflows |= off
    marked = ~overflows & state.skipped.cover(arrivals.group, arrivals.sequence, arrivals.ends, policy.increment)
    disposition[marked], reason[marked] = Disposition.DUPLICATE, Reason.TAKEN_BEFORE
    over = groups.has(OVER)[arrivals.group] & ~overflows
    disposition[over], reason[over] = Disposition.LATE, Reason.GROUP_CLOSED
    pending = np.flatnonzero(disposition == Disposition.HELD)
    held, position = state.held.with_more(_held(arrivals.take(pending)), pending)
    again = standard.repeats(held, position)
    twice = position[again]
    disposition[twice], reason[twice] = Disposition.DUPLICATE, Reason.TAKEN_BEFORE
    held, position = held.take(~again), position[~again]
    twice.sort()
    likeness = compared(state, held, no_messages(), arrivals, twice, policy.remember)
    differs = twice[likeness == Likeness.DIFFERENT]
    reason[differs] = Reason.CONFLICTS
    rejected = no_messages()
    if policy.capacity is not None:
        gone = _too_many(policy.capacity, held, position, arrivals)
        mine = position[gone]
        its = held.take(gone)
        cause = by_group(len(state), 0, arrivals.group, arrivals.ref)
        rejected = Decided.of(its, Disposition.REJECTED, Reason.CAPACITY, cause[its.group]).take(mine < 0)
        disposition[mine[mine >= 0]], reason[mine[mine >= 0]] = Disposition.REJECTED, Reason.CAPACITY
        held = held.take(~gone)
    void = (disposition == Disposition.HELD) & (arrivals.weight == 0)
    disposition[void], reason[void] = Disposition.VOID, Reason.LEAVES_NOTHING
    state = _clocked(state.having(held=held), arrivals)
    state = _settling(state)
    decided = Decided.concat([rejected, _decided(arrivals, disposition, reason)])
    return state, decided, conflicts(arrivals, differs)


def _too_many(capacity: int, held: Held, position: Ints, arrivals: Arrivals) -> Bools:
    """Of groups that are too full the message with the highest number, the last that came: among those in their turn."""
    touched = np.zeros(int(held.group.max()) + 1 if len(held) else 0, np.bool_)
    counts = held.counts(len(touched))
    new = np.flatnonzero((position >= 0) & (held.weight > 0))
    touched[held.group[new]] = counts[held.group[new]] > capacity
    gone = np.zeros(len(held), np.bool_)
    rows = (
        np.flatnonzero(touched[held.group] & ~held.late & ~held.waits & (held.weight > 0))
        if len(held)
        else empty_ints()
    )
    rows = rows[np.lexsort((held.ref[rows], held.sequence[rows], held.group[rows]))]
    gone[rows[last_per_group(held.group[rows])]] = True
    return gone


def _settling(state: State) -> State:
    """The state with the clocks of groups that gather: each runs from the first message that it holds."""
    groups = state.groups
    waiting = state.held.take(~state.held.waits & ~state.held.late).messages()
    first, holds = waiting.first_arrival(len(state)), waiting.counts(len(state)) > 0
    began = np.where(state.stopped() | ~holds, NEVER, np.where(groups.since == NEVER, first, groups.since))
    return state.with_groups(since=np.where(groups.has(Flag.BEGUN), groups.since, began))


def _clocked(state: State, arrivals: Arrivals) -> State:
    clock = state.groups.clock.copy()
    np.maximum.at(clock, arrivals.group, arrivals.time)
    return state.with_groups(clock=clock)


def _held(arrivals: Arrivals, *, aside: bool = False, bits: int = 0) -> Held:
    """Arrivals as held messages; `aside`: they may not be judged yet; `bits`: further ones."""
    return arrivals.held(arrivals.bits | bits, waits=np.full(len(arrivals), aside))


def _holding(state: State, more: Held) -> State:
    held = Held.concat([state.held, more])
    return state.having(held=held.take(order_by(held.group, held.sequence)))


def _full(policy: StandardNumbers, state: State, arrivals: Arrivals) -> Bools:
    """The messages, one of each group, for which there is no room."""
    if policy.capacity is None:
        return np.zeros(len(arrivals), np.bool_)
    full: Bools = (state.held.counts(len(state)) >= policy.capacity)[arrivals.group] & (arrivals.weight > 0)
    return full


def _wait_in_line(policy: StandardNumbers, state: State, arrivals: Arrivals) -> tuple[State, Decided]:
    """Hold what comes after a message that ends a life in a stopped group. A void counts as one from the moment it comes."""
    over = state.groups.has(Flag.CLOSED)[arrivals.group]
    full = _full(policy, state, arrivals) & ~over
    disposition = np.where(over, Disposition.LATE, np.where(full, Disposition.REJECTED, Disposition.HELD))
    reason = np.where(over, Reason.GROUP_CLOSED, np.where(full, Reason.CAPACITY, Reason.NONE))
    state = _clocked(_holding(state, _held(arrivals.take(~over & ~full), aside=True, bits=IN_LINE)), arrivals)
    void = (disposition == Disposition.HELD) & (arrivals.weight == 0)
    disposition[void], reason[void] = Disposition.VOID, Reason.LEAVES_NOTHING
    return state, _decided(arrivals, disposition, reason)


def _decided(arrivals: Arrivals, disposition: Ints, reason: Ints) -> Decided:
    rows = np.flatnonzero(disposition != Disposition.HELD)
    return Decided.of(arrivals.take(rows), disposition[rows], reason[rows])


# ---- without a number


def _unnumbered(
    policy: StandardNumbers, state: State, before: State, arrivals: Arrivals, out: Decided
) -> tuple[State, Decided]:
    """Messages without a number leave at once; in a stopped group they wait. `state`, `before`: after and before the messages that came
    with them; `out`: what was decided of these, which gets other ordinals.
    """
    over, stopped = before.groups.has(OVER)[arrivals.group], before.stopped()[arrivals.group]
    full = _full(policy, before, arrivals) & stopped & ~over
    disposition = np.where(over, Disposition.LATE, np.where(stopped, Disposition.HELD, Disposition.RELEASED))
    reason = np.where(over, Reason.GROUP_CLOSED, Reason.NONE)
    disposition[full], reason[full] = Disposition.REJECTED, Reason.CAPACITY
    void = ~over & (arrivals.weight == 0)
    disposition[void], reason[void] = Disposition.VOID, Reason.LEAVES_NOTHING
    waits = arrivals.take(disposition == Disposition.HELD)
    if len(waits):
        state = _holding(state, _held(waits, aside=True))
    leave = arrivals.take(disposition == Disposition.RELEASED)
    others = np.where(disposition == Disposition.RELEASED, int(Disposition.HELD), disposition)
    state, left = _among(_clocked(state, arrivals), before, leave, out)
    return state, Decided.concat([left, _decided(arrivals, others, reason)])


def _among(state: State, before: State, leave: Arrivals, out: Decided) -> tuple[State, Decided]:
    """What left, with messages without a number in between: each takes the next ordinal when it comes."""
    if not len(leave):
        return state, out
    numbered = out.take(out.disposition == Disposition.RELEASED)
    bare = Decided.of(leave, Disposition.RELEASED, Reason.NONE)
    both = Decided.concat([numbered, bare])
    own = np.concatenate([empty_ints(len(numbered)), leave.weight])
    order = np.lexsort((both.cause, both.group))
    both, own = both.take(order), own[order]
    ordinal = running_latest(both.group, np.where(own > 0, before.groups.ordinal[both.group], both.ordinal))
    both = both.with_columns(ordinal=ordinal + sum_before(both.group, own) + (own > 0))
    _, last_ordinal = state.groups.ordinals(leave.group, leave.weight)
    rest = out.take(out.disposition != Disposition.RELEASED)
    return state.with_groups(ordinal=last_ordinal), Decided.concat([both, rest])


# ---- bases


def _bases(policy: StandardNumbers, state: State, bases: Arrivals) -> Judged:
    """Messages that have everything through their number in them, one of each group."""
    groups, group, number, step = state.groups, bases.group, bases.ends, policy.increment
    known = (groups.has(Flag.BEGUN) | (not policy.finds_start))[group]
    disposition, reason, mark = undecided(bases)
    mark(bases.overflow(step), Disposition.INVALID, Reason.SEQUENCE_OVERFLOWS)
    mark(known & (number % step != groups.first[group] % step), Disposition.INVALID, Reason.OFF_STEP)
    mark(groups.has(OVER)[group], Disposition.LATE, Reason.GROUP_CLOSED)
    mark(known & (number < groups.next[group]), Disposition.DUPLICATE, Reason.COVERED)
    state = _clocked(state, bases)
    waits = (disposition == Disposition.HELD) & state.stopped()[group]
    state = _holding(state, _held(bases.take(waits), aside=True))
    void = (disposition == Disposition.HELD) & (bases.weight == 0)
    disposition[void], reason[void] = Disposition.VOID, Reason.LEAVES_NOTHING
    covers = np.isin(disposition, (Disposition.HELD, Disposition.VOID)) & ~waits
    decided = _decided(bases, disposition, reason)
    if not covers.any():
        return state, decided, no_events()
    its = bases.take(covers)
    state, out, told = _cover(policy, state, _held(its), its.ref, its.time, timed=False)
    return state, Decided.concat([out, decided]), told


def _cover(
    policy: StandardNumbers, state: State, bases: Held, cause: Ints, time: Ints, *, timed: bool, go_on: bool = True
) -> Judged:
    """Bases leave, one of each group, at some times; what they cover is a duplicate, and the groups go on behind them. `cause`, `timed`:
    see `Decided`. `go_on`: what may leave behind them leaves.
    """
    rows, step = bases.group, policy.increment
    part, number = state.select(rows), bases.ends
    groups, held = part.groups, part.held
    has, first, last = holes.holes(policy, part)
    opened = np.flatnonzero(has)
    told = Events.of(EventKind.HOLE_COVERED, opened, first[opened], np.minimum(last, number)[opened], time[opened])
    inside = ~held.aside & (held.ends <= number[held.group])
    gone = held.take(inside).messages().by_arrival()
    covered = Decided.of(gone, Disposition.DUPLICATE, Reason.COVERED, cause[gone.group], timed=timed)
    following, leaves = number + step, bases.weight > 0
    markers = part.skipped.take(part.skipped.last > number[part.skipped.group])
    markers = markers.with_columns(first=np.maximum(markers.first, following[markers.group]))
    begins = ~groups.has(Flag.BEGUN) & policy.finds_start
    ordinal = groups.ordinal + bases.weight
    leaving = MessageRows(np.arange(len(bases)), bases.sequence, bases.ref)
    out = Decided.of(leaving, Disposition.RELEASED, Reason.NONE, cause, ordinal=ordinal, timed=timed).take(leaves)
    part = part.having(
        groups.with_columns(
            flags=groups.flags | int(Flag.BEGUN),
            first=np.where(begins, following, groups.first),
            next=following,
            last=np.where(leaves, number, groups.last),
            ordinal=ordinal,
            since=np.full(len(part), NEVER, np.int64),
            suspects=np.where(leaves, 0, groups.suspects),
        ),
        held.take(~inside),
        markers,
    ).with_lives(based=number)
    if policy.increment > 1:
        part, off = _without_off_step(policy, part, begins)
        off = off.with_columns(cause=cause[off.group], timed=np.full(len(off), timed))
        covered = Decided.concat([covered, off])
    part, more, voids = _let_go(policy, part, time) if go_on else (part, no_messages(), no_events())
    more = more.with_columns(cause=cause[more.group], timed=np.full(len(more), timed))
    decided, events = Decided.concat([out, covered, more]), Events.concat([told, voids])
    return among(state, rows, part, decided, events)


# ---- lives


def _odd(policy: StandardNumbers, state: State, arrivals: Arrivals) -> tuple[Judged, Arrivals]:
    """Messages with which numbers begin anew, and those of an epoch that is over, one of each group.

    Returns those that are to be judged now.
    """
    groups, group, lives = state.groups, arrivals.group, state.known_lives
    marker, epoch = arrivals.bits & RESTARTS != 0, lives.epoch[group] if arrivals.epoch is None else arrivals.epoch
    fresh = ~marker & (lives.epoch[group] == NOTHING)
    disposition, reason, mark = undecided(arrivals)
    wrong = np.where(marker, 0, _wrong_at_beginning(policy, state, arrivals, fresh))
    higher = ~marker & (epoch > lives.epoch[group])
    mark(higher & (wrong > 0), Disposition.INVALID, wrong)
    mark(groups.has(OVER)[group], Disposition.LATE, Reason.GROUP_CLOSED)
    same = marker & (arrivals.fingerprint != 0) & (arrivals.fingerprint == lives.marker[group])
    mark(same, Disposition.DUPLICATE, Reason.TAKEN_BEFORE)
    stays = disposition == Disposition.HELD
    lower, begins = stays & ~marker & ~higher, stays & (marker | (higher & ~fresh))
    waits = begins & state.stopped()[group]
    state = _holding(_clocked(state, arrivals), _held(arrivals.take(waits), aside=True, bits=IN_LINE))
    void = waits & (arrivals.weight == 0)
    disposition[void], reason[void] = Disposition.VOID, Reason.LEAVES_NOTHING
    course = Course(state)
    course.note(_decided(arrivals, disposition, reason))
    if lower.any():
        state = course.go(*_of_ended(policy, state, arrivals.take(lower)))
    ends = begins & ~waits
    if ends.any():
        its = arrivals.take(ends)
        state = course.go(*_end(policy, state, its.group, its.ref))
        state = course.go(*_mark(state, its.take(marker[ends])))
    named = stays & higher & ~waits
    if named.any():
        present = state.known_lives.epoch.copy()
        present[group[named]] = epoch[named]
        course.go(state.with_lives(epoch=present))
    return course.judged(), arrivals.take(named)


def _wrong_at_beginning(policy: StandardNumbers, state: State, arrivals: Arrivals, fresh: Bools) -> Ints:
    """The `Reason` for which each message can't begin an epoch, 0 if it can; `fresh`: those whose group has had none."""
    groups, step = state.groups, policy.increment
    start = policy.start if isinstance(policy.start, int) else NOTHING
    own = np.where(groups.has(Flag.BEGUN) | (not policy.finds_start), groups.first, NOTHING)[arrivals.group]
    first = np.where(fresh, own, start)
    reason = empty_ints(len(arrivals))
    if policy.modulus is not None:
        firsts = by_group(len(state), NOTHING, arrivals.group, first)
        arrivals, reason, _ = unwrapped(policy.modulus, arrivals, firsts)
    reason = np.where((reason == 0) & arrivals.overflow(step), int(Reason.SEQUENCE_OVERFLOWS), reason)
    known, base = first != NOTHING, arrivals.bits & BASE != 0
    off = (arrivals.ends % step != first % step) | (~base & (arrivals.sequence % step != first % step))
    off &= known
    off |= ~base & ((arrivals.ends - arrivals.sequence) % step != 0)
    reason = np.where((reason == 0) & off, int(Reason.OFF_STEP), reason)
    below = known & ~base & (arrivals.ends < first)
    return np.where((reason == 0) & below, int(Reason.BELOW_START), reason)


def _end(policy: StandardNumbers, state: State, rows: Ints, cause: Ints) -> Judged:
    """End the lives of some groups, in ascending rows, by a message each: what is held leaves in order, its holes are skipped, and new
    lives begin.
    """
    part, step = state.select(rows), policy.increment
    gathers = _gathering(policy, part)
    decided = [no_messages()]
    if gathers.any():
        part, off = _fix_start(policy, part, gathers)
        decided.append(off.with_columns(cause=cause[off.group]))
    groups, held = part.groups, part.held
    known = groups.has(Flag.BEGUN) | (not policy.finds_start)
    part = part.having(skipped=part.skipped.take(known[part.skipped.group]))
    at = taken(part, step)
    beyond = at.sequence + at.span * step
    before = np.where(first_per_group(at.group), groups.next[at.group], np.concatenate([beyond[:1], beyond[:-1]]))
    hole = at.sequence > before
    skipped = Ranges(at.group[hole], before[hole], at.sequence[hole] - step)
    leaves = at.messages
    leaving = held.take(at.row[leaves])
    ordinal, last_ordinal = groups.ordinals(leaving.group, at.weight[leaves])
    left = Decided.of(leaving, Disposition.RELEASED, at.why(held, leaves), cause[leaving.group], ordinal=ordinal)
    everything = np.ones(len(at), np.bool_)
    decided += [left, at.covered(held, everything, cause[at.group])] if held.through is not None else [left]
    clock = groups.clock
    events = Events.concat([
        Events.of(EventKind.HOLE_SKIPPED, skipped.group, skipped.first, skipped.last, clock[skipped.group]),
        passed_voids(at, everything, np.cumsum(hole), clock[at.group], step),
    ])  # fmt: skip
    following = groups.next.copy()
    following[at.group] = beyond  # ascends: the highest stays
    ended = _what_ended(
        part, skipped, np.where(known, groups.first, NOTHING), np.where(known, following, NOTHING), step
    )
    lives = part.known_lives
    out = Decided.concat(decided)
    part = part.with_groups(ordinal=last_ordinal)
    part = begun_anew(policy, part, np.arange(len(part)), clock)
    part = part.with_lives(ended=lives.epoch, top=np.full(len(part), NOTHING, np.int64))
    part = replace(part, ended=ended if policy.epochs else part.ended)
    return among(state, rows, part, out, events)


def _what_ended(state: State, skipped: Ranges, first: Ints, following: Ints, step: int) -> Ranges:
    """The numbers of epochs that end which never left: what was skipped, what is below the first, and all from `following` on."""
    ranges = state.skipped.add(skipped, np.where(following == NOTHING, _MAX, following))
    groups = np.arange(len(state))
    lowest = NOTHING + 1
    below = groups[first > lowest + step]
    head = Ranges(below, np.full(len(below), lowest), first[below] - step)
    tail = Ranges(groups, np.maximum(following, lowest), np.full(len(groups), _MAX))
    every = Ranges.concat([ranges, head, tail])
    return every.take(order_by(every.group, every.first))


def _mark(state: State, markers: Arrivals) -> tuple[State, Decided]:
    """Messages leave with which lives have begun."""
    if not len(markers):
        return state, no_messages()
    group, leaves = markers.group, markers.weight > 0
    ordinal, marker = state.groups.ordinal.copy(), state.known_lives.marker.copy()
    ordinal[group] += markers.weight
    marker[group] = markers.fingerprint
    disposition = np.where(leaves, Disposition.RELEASED, Disposition.VOID)
    reason = np.where(leaves, Reason.NONE, Reason.LEAVES_NOTHING)
    out = Decided.of(markers, disposition, reason, ordinal=np.where(leaves, ordinal[group], 0))
    return state.with_groups(ordinal=ordinal).with_lives(marker=marker), out


def _of_ended(policy: StandardNumbers, state: State, arrivals: Arrivals) -> Judged:
    """Messages of epochs that are over, one of each group. Of the epoch before it is known what never left."""
    group, lives = arrivals.group, state.known_lives
    disposition, reason, mark = undecided(arrivals)
    ended = lives.ended[group]
    mark(np.asarray(arrivals.epoch) != ended, Disposition.LATE, Reason.EPOCH_OVER)
    if policy.modulus is not None:
        tails = np.flatnonzero(last_per_group(state.ended.group))
        top = by_group(len(state), NOTHING, state.ended.group[tails], state.ended.first[tails] - policy.increment)
        arrivals, wrong, _ = unwrapped(policy.modulus, arrivals, top)
        mark(wrong > 0, Disposition.INVALID, wrong)
    first = np.where(arrivals.bits & BASE != 0, arrivals.ends, arrivals.sequence)
    late = state.ended.touch(group, first, arrivals.ends)
    mark(~late, Disposition.DUPLICATE, Reason.TAKEN_BEFORE)
    message = arrivals.weight > 0
    if policy.late != "set_aside":
        again = _holds_ended(state, arrivals, first)
        mark(again, Disposition.DUPLICATE, Reason.TAKEN_BEFORE)
        full = _full(policy, state, arrivals)
        stopped = state.stopped()[group]
        delivered = message & ~stopped & (policy.late == "deliver")
        mark(delivered, Disposition.RELEASED, Reason.EPOCH_OVER)
        mark(message & full, Disposition.REJECTED, Reason.CAPACITY)
        mark(~message, Disposition.LATE, Reason.EPOCH_OVER)
        waits = disposition == Disposition.HELD
    else:
        mark(np.ones(len(arrivals), np.bool_), Disposition.LATE, Reason.EPOCH_OVER)
        waits = np.zeros(len(arrivals), np.bool_)
    stopped = state.stopped()
    state = _clocked(_holding(state, _held(arrivals.take(waits), aside=True, bits=OF_ENDED)), arrivals)
    events = no_events()
    if waits.any():
        flags = state.groups.flags.copy()
        flags[group[waits]] |= int(Flag.SUSPENDED)
        since = state.groups.since.copy()
        since[group[waits]] = NEVER
        state = state.with_groups(flags=flags, since=since)
        fresh = arrivals.take(waits & ~stopped[group])
        events = Events.of(EventKind.SUSPENDED, fresh.group, fresh.sequence, fresh.sequence, fresh.time)
    left = disposition == Disposition.RELEASED
    out = _decided(arrivals.take(~left), disposition[~left], reason[~left])
    if left.any():
        state, more = _delivered_of_ended(policy, state, arrivals.take(left), first[left])
        out = Decided.concat([more, out])
    return state, out, events


def _delivered_of_ended(policy: StandardNumbers, state: State, its: Arrivals, first: Ints) -> tuple[State, Decided]:
    """Late messages of the epoch before leave at once, flagged; `first`: the first number of each."""
    ordinal, last = state.groups.ordinal.copy(), state.groups.last.copy()
    ordinal[its.group] += its.weight
    last[its.group] = its.ends
    ended, _ = state.ended.without(its.group, first, its.ends, policy.increment, state.groups.next)
    out = Decided.of(its, Disposition.RELEASED, Reason.EPOCH_OVER, ordinal=ordinal[its.group], late=True)
    return replace(state.with_groups(ordinal=ordinal, last=last), ended=ended), out


def _holds_ended(state: State, arrivals: Arrivals, first: Ints) -> Bools:
    """The messages of the epoch before that one which is held covers."""
    its = state.held.take(state.held.bits & OF_ENDED != 0)
    found = np.zeros(len(arrivals), np.bool_)
    for row, group in enumerate(arrivals.group.tolist()):
        mine = its.take(its.group == group)
        found[row] = bool(((mine.sequence <= first[row]) & (mine.ends >= arrivals.ends[row])).any())
    return found


# ---- after an operator's action


def settle(policy: StandardNumbers, state: State, now: Ints) -> Judged:
    """After an operator's action: the highest base leaves, then late messages and those without a number, then others, then the line."""
    state = state.with_groups(clock=np.maximum(state.groups.clock, now))
    free = ~state.stopped()
    line = (state.held.bits & IN_LINE != 0) & free[state.held.group]
    waiting = state.held.take(line)
    state = state.having(held=state.held.take(~line))
    course = Course(state)
    for step in (_highest_bases, _late_and_unnumbered, _others):
        course.go(*step(policy, course.state, now))
    if len(waiting):
        course.go(*_line(policy, course.state, waiting, now))
    return course.judged()


def _highest_bases(policy: StandardNumbers, state: State, now: Ints) -> Judged:
    """Of the bases that are held the highest leaves; the others are duplicates."""
    its = state.held.aside & (state.held.bits & (BASE | IN_LINE) == BASE) & ~state.stopped()[state.held.group]
    if not its.any():
        return state, no_messages(), no_events()
    bases = state.held.take(its)
    bases = bases.take(np.lexsort((bases.ref, -bases.ends, bases.group)))
    known = state.groups.has(Flag.BEGUN) | (not policy.finds_start)
    below = known[bases.group] & (bases.ends < state.groups.next[bases.group])
    leaves = first_per_group(bases.group) & ~below
    state = state.having(held=state.held.take(~its))
    others = bases.take(~leaves).messages().by_arrival()
    aside = Decided.of(others, Disposition.DUPLICATE, Reason.COVERED, now[others.group], timed=True)
    bases = bases.take(leaves)
    if not len(bases):
        return state, aside, no_events()
    at = now[bases.group]
    state, out, told = _cover(policy, state, bases, at, at, timed=True, go_on=False)
    return state, Decided.concat([out, aside]), told


def _late_and_unnumbered(policy: StandardNumbers, state: State, now: Ints) -> Judged:
    """Held messages that are late leave, flagged, and those without a number, in order of arrival."""
    held, step = state.held, policy.increment
    ended, bare = held.bits & OF_ENDED != 0, held.aside & (held.bits & (UNNUMBERED | IN_LINE) == UNNUMBERED)
    free = (held.late | ended | bare) & ~state.stopped()[held.group]
    if not free.any():
        return state, no_messages(), no_events()
    late, ended = (held.late | ended)[free], ended[free]
    leaving = held.take(free)
    order = np.lexsort((leaving.ref, leaving.group))
    leaving, late, ended = leaving.take(order), late[order], ended[order]
    group, groups = leaving.group, state.groups
    ordinal, last_ordinal = groups.ordinals(group, leaving.weight)
    reason = np.where(late, int(Reason.LATE_HELD), int(Reason.NONE))
    out = Decided.of(leaving, Disposition.RELEASED, reason, now[group], ordinal=ordinal, late=late, timed=True)
    last = groups.last.copy()
    last[group[late]] = leaving.ends[late]
    own, its = leaving.take(late & ~ended), leaving.take(ended)
    skipped, _ = state.skipped.without(own.group, own.sequence, own.ends, step, groups.next)
    before, _ = state.ended.without(its.group, its.sequence, its.ends, step, groups.next)
    state = state.having(groups.with_columns(last=last, ordinal=last_ordinal), held.take(~free), skipped)
    return replace(state, ended=before).remembering(Remembered.of(own), policy.remember), out, no_events()


def _others(policy: StandardNumbers, state: State, now: Ints) -> Judged:
    """What may leave leaves; of groups that gather the clock begins anew."""
    gathers = _gathering(policy, state)
    if not gathers.any():
        return _let_go(policy, state, now)
    holds = mask_of(len(state), state.held.messages().group)
    since = np.where(gathers, np.where(holds & ~state.stopped(), now, NEVER), state.groups.since)
    state = state.with_groups(since=since)
    ready = np.flatnonzero(~gathers)
    return among(state, ready, *_let_go(policy, state.select(ready), now[ready]))


def _line(policy: StandardNumbers, state: State, waiting: Held, now: Ints) -> Judged:
    """Judge what waited in lines as if it came now. No capacity counts, and what becomes of a void is decided already."""
    policy = replace(policy, capacity=None)
    waiting = waiting.by_arrival()
    group, voids = waiting.group, waiting.ref[waiting.weight == 0]
    arrivals = Arrivals(
        group, waiting.sequence, waiting.ref, np.maximum(now[group], waiting.time), waiting.bits & ~IN_LINE, waiting.weight,
        waiting.fingerprint, waiting.through, waiting.epoch,
    )  # fmt: skip
    course = Course(state)
    while len(arrivals):
        state = course.state
        together = quiet(policy, state, arrivals, clocked=False)
        stretch = arrivals.take(together)
        after = course.go(*take(policy, state, stretch))
        if may_suspend(policy):
            course.note(events=suspensions(state, after, stretch))
        arrivals = arrivals.take(~together)
    state, every, events = course.judged()
    every = every.take(~np.isin(every.ref, voids))
    return state, every.with_columns(cause=now[every.group], timed=np.ones(len(every), np.bool_)), events


def as_arrived(policy: Policy, held: Held, time: Ints) -> Arrivals:
    """Held messages as they arrived, at some time: their numbers as the producer gave them."""
    sequence, through = held.sequence, held.through
    modulus = policy.modulus if isinstance(policy, StandardNumbers) else None
    if modulus is not None:
        sequence, through = sequence % modulus, None if through is None else through % modulus
    bits = held.bits & ~(OF_ENDED | IN_LINE)
    return Arrivals(held.group, sequence, held.ref, time, bits, held.weight, held.fingerprint, through, held.epoch)


def told(policy: StandardNumbers, begun: State, following: int) -> tuple[State, Held, Decided]:
    """One group that has been told where it begins, without what it holds below; that; and what is off the step, which is invalid."""
    held = begun.held
    below = ~held.late & ~held.waits & (held.ends < following)
    state, off = _without_off_step(policy, begun.having(held=held.take(~below)), np.ones(1, np.bool_))
    return moved(policy, state, following), held.take(below).messages(), off


def moved(policy: Policy, state: State, following: int) -> State:
    """One group whose next number an operator has set: there numbers are looked for, and no base has them."""
    if state.lives is None:
        return state
    lives, before = state.lives, np.array([following - getattr(policy, "increment", 1)])
    top = before if getattr(policy, "modulus", None) is not None else lives.top
    return state.with_lives(top=top, based=np.minimum(lives.based, before))
