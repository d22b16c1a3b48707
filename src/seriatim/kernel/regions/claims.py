"""Claims of a session's numbers: which region works on which message, and which numbers are over. The journal of two regions keeps them.

A session has numbers `start`, `start + increment` … Each number is **over** once: its message was handled, it failed for good, it was
skipped, or its reservation ended without a message. All numbers up to `done_through` are over. Copies of one message come to both regions.

1. **In order.** Only numbers that follow `done_through` without a gap can be claimed, by one region at a time. So no region gets ahead of
   the other.
2. **A claim is a lease.** It ends by itself when its holder says nothing for its length; then another may take over. It has a random id,
   and a version that grows with each claim. A completion of its holder counts only if id and version are those of the session. So a frozen
   holder that wakes completes nothing; and after a restore of the journal, when versions come again, the id still tells two holders apart.
3. **A claim is a vote** (`kernel/regions/votes.py`). Before a handler gets a message, the journal knows its id under its number. Another
   message with this number is a conflict, for ever. If the journal doesn't know the number, and the box has withdrawn the message, or the
   journal knows it under a higher number, the number becomes void.
4. **A number is skipped only here.** A region that has a later message reports the hole. When its time has run out, the hole is skipped up
   to the lowest number that is there, unless the journal knows that one of these numbers was sent.
5. **Who fails suspends the session in both regions**, or the number is over and the session goes on, as its queue says.
6. **A session is forgotten** only when nothing older than its last use can come any more. Each region reports from when on it has
   everything (a watermark). A copy leaves an outbox before it arrives in a queue, and goes into an outbox again only for a box that was
   restored. So a region's report counts what it saw in its own queue only up to what it had known, before it looked, of the other's
   outbox. A message older than a forgotten session, which only a restored region can have, is not claimed: the journal may have forgotten
   that it is over.

Times are microseconds of the journal's clock. Rules are columnar: a row a session or a message; the rows of a session are neighbours, in
order of numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from seriatim.kernel.values.columns import Bools, Columns, Ints, rank_in_group, sum_before
from seriatim.kernel.values.time import NEVER


class SessionState(IntEnum):
    """The state of a session: idle, worked on under a claim, or stopped because a message failed or an operator stopped it."""

    IDLE = 0
    WORKING = 1
    SUSPENDED = 2


class EntryState(IntEnum):
    """The journal's entry of a number. `KNOWN`: its message's id. `RESERVED`: for a sender, for a while. `PENDING`: it failed, and
    is tried again. `FAILED`: for good. `SKIPPED`: by an operator, or with a hole. `VOID`: its reservation ended. A number at or below
    `done_through` that is `KNOWN` or `PENDING` was completed.
    """

    KNOWN = 0
    RESERVED = 1
    PENDING = 2
    FAILED = 3
    SKIPPED = 4
    VOID = 5


class Known(IntEnum):
    """The journal's knowledge of a requested number's id and digest: nothing, the same message, or another one."""

    NOTHING = 0
    SAME = 1
    OTHER = 2


class JournalAnswer(IntEnum):
    """The journal's answer to a region that asks for a number. `TAKEN`: the claim has this message. `OVER`: the number is over; the region
    completes its own copy. `CONFLICT`: the number is another message's; the region sets its copy aside. `WORKING`: another claim has the
    session. `LATER`: its next attempt isn't due, or its reservation isn't confirmed. `AHEAD`: a number before it isn't over. `SUSPENDED`:
    the session stands. `INVALID`: below the start, or between two steps. `FORGOTTEN`: it is older than what the journal has forgotten; an
    operator decides.
    """

    TAKEN = 0
    OVER = 1
    CONFLICT = 2
    WORKING = 3
    LATER = 4
    AHEAD = 5
    SUSPENDED = 6
    INVALID = 7
    FORGOTTEN = 8


class Action(IntEnum):
    RETRY = 0
    SKIP = 1
    RELEASE = 2
    SUSPEND = 3
    RESUME = 4


#: The states of a session that each action fits. Skipping under a claim would take a message from its handler.
ALLOWED: dict[Action, tuple[SessionState, ...]] = {
    Action.RETRY: (SessionState.SUSPENDED, SessionState.IDLE),
    Action.SKIP: (SessionState.SUSPENDED, SessionState.IDLE),
    Action.RELEASE: (SessionState.WORKING,),
    Action.SUSPEND: (SessionState.IDLE, SessionState.WORKING),
    Action.RESUME: (SessionState.SUSPENDED,),
}


@dataclass(frozen=True, slots=True)
class Sessions(Columns):
    """Sessions as the journal knows them, a row a session. `start`, `increment`: of the queue. `done_through`: all up to it are over;
    `start - increment` for none. `state`: a `SessionState`. `lease_until`: when its claim ends. `forgotten_before`: a message that was
    published before it is too old to be claimed; `NEVER` if no session of the queue had been forgotten when this one came.
    """

    start: Ints
    increment: Ints
    done_through: Ints
    state: Ints
    lease_until: Ints
    forgotten_before: Ints


@dataclass(frozen=True, slots=True)
class ClaimRequests(Columns):
    """The messages that a region asks for, a row a message; ascending by session and number, each number once. `session`: the row of its
    session. `number`: its number. `known`: a `Known`. `entry`: the `EntryState` of its number; -1 for none. `until`: when its entry is due:
    a retry, or the end of a reservation. `published`: when it was published, as the journal's time.
    """

    session: Ints
    number: Ints
    known: Ints
    entry: Ints
    until: Ints
    published: Ints


@dataclass(frozen=True, slots=True)
class Answers(Columns):
    """The answers, a row a message: a `JournalAnswer`, and when to ask again; `NEVER` if no time is known."""

    answer: Ints
    again: Ints


def claimed(sessions: Sessions, requests: ClaimRequests, now: int, most: int) -> Answers:
    """Answer a region that asks for messages: it gets at most `most` of a session, from its next number on, without a gap."""
    if not len(requests):
        return Answers(requests.number, requests.number)
    at = requests.session
    start, step, done = sessions.start[at], sessions.increment[at], sessions.done_through[at]
    state, lease = sessions.state[at], sessions.lease_until[at]
    invalid = (requests.number < start) | ((requests.number - start) % step != 0)
    is_void = (requests.entry == EntryState.VOID) | (requests.entry == EntryState.SKIPPED)
    over = ~invalid & ((requests.number <= done) | is_void)
    conflict = ~invalid & (requests.known == Known.OTHER)
    forgotten = ~over & (requests.published < sessions.forgotten_before[at])
    open_ = ~(invalid | over)
    held = (state == SessionState.WORKING) & (lease > now)
    waits = (requests.entry == EntryState.RESERVED) | ((requests.entry == EntryState.PENDING) & (requests.until > now))
    # The run that may be claimed: open rows, each one step after the one before, up to the first that doesn't fit.
    place = sum_before(at, open_.astype(np.int64))
    in_turn = open_ & (requests.number == done + step * (place + 1)) & (place < most)
    fits = in_turn & ~conflict & ~forgotten & ~waits
    unbroken = sum_before(at, (open_ & ~fits).astype(np.int64)) == 0
    answers = {  # the first that applies
        JournalAnswer.INVALID: invalid,
        JournalAnswer.CONFLICT: conflict,
        JournalAnswer.OVER: over,
        JournalAnswer.FORGOTTEN: forgotten,
        JournalAnswer.SUSPENDED: state == SessionState.SUSPENDED,
        JournalAnswer.WORKING: held,
        JournalAnswer.TAKEN: fits & unbroken,
        JournalAnswer.LATER: waits & in_turn & unbroken,
    }
    answer = np.select(list(answers.values()), list(answers), JournalAnswer.AHEAD).astype(np.int64)
    again = np.select([answer == JournalAnswer.WORKING, answer == JournalAnswer.LATER], [lease, requests.until], NEVER)
    return Answers(answer, again)


def voided(entry: Ints, *, withdrawn: Bools, renumbered: Bools) -> Bools:
    """Return the requested numbers above `done_through` that become void. `entry`: as in `ClaimRequests`. `withdrawn`: the region's box has
    withdrawn the message. `renumbered`: the journal knows the message under a higher number that isn't over.
    """
    ends: Bools = (entry == -1) & (withdrawn | renumbered)
    return ends


@dataclass(frozen=True, slots=True)
class Holders(Columns):
    """A completion beside its session, a row a session. `state`, `done_through`, `increment`: the session's. `same_claim`, `same_version`:
    whether both are the session's. `first`, `last`: the numbers that are completed.
    """

    state: Ints
    done_through: Ints
    increment: Ints
    same_claim: Bools
    same_version: Bools
    first: Ints
    last: Ints


def completes(holders: Holders) -> Bools:
    """Return whether completions count: only those of the present claim, for the next numbers."""
    is_holder = (holders.state == SessionState.WORKING) & holders.same_claim & holders.same_version
    counts: Bools = (
        is_holder & (holders.first == holders.done_through + holders.increment) & (holders.first <= holders.last)
    )
    return counts


def failed(attempts: Ints, most: Ints, *, passes: Bools, goes_on: Bools) -> tuple[Ints, Ints]:
    """Decide on numbers whose handler failed: the `EntryState` of each, and the `SessionState` of its session. `attempts`: how often the
    message was tried, this time included. `most`: how often it may be tried. `passes`: whether another attempt may succeed. `goes_on`:
    whether the session goes on after a message that failed for good; else it stands.
    """
    again = passes & (attempts < most)
    entry = np.where(again, EntryState.PENDING, EntryState.FAILED).astype(np.int64)
    state = np.where(again | goes_on, SessionState.IDLE, SessionState.SUSPENDED).astype(np.int64)
    return entry, state


def lost(state: Ints, lease_until: Ints, *, asked: Bools, now: int) -> Bools:
    """Return the sessions whose holder has died while it worked on their next number: that was an attempt, as if the handler had failed. A
    lease that is over counts so only where somebody else takes over: until then its holder may still complete the number. `state`: a
    `SessionState` for each session. `lease_until`: when its claim ends. `asked`: whether its next number is asked for, by a region that has
    the message.
    """
    over: Bools = asked & (state == SessionState.WORKING) & (lease_until <= now)
    return over


@dataclass(frozen=True, slots=True)
class Holes(Columns):
    """Sessions in which a region waits for a number that it doesn't have, a row a session. `state`, `lease_until`, `done_through`,
    `increment`: the session's. `lowest`: the lowest number behind the hole that the region has. `known`: the journal knows one of the
    numbers before it. `since`: when the hole was reported first. `timeout`: after which it is skipped; 0: never.
    """

    state: Ints
    lease_until: Ints
    done_through: Ints
    increment: Ints
    lowest: Ints
    known: Bools
    since: Ints
    timeout: Ints


def holes_to_skip(holes: Holes, now: int) -> Bools:
    """Return the holes that are skipped up to the number before `lowest`: their time is over, and none of their numbers is known to be
    sent.
    """
    rests = (holes.state == SessionState.IDLE) | ((holes.state == SessionState.WORKING) & (holes.lease_until <= now))
    is_hole = holes.lowest > holes.done_through + holes.increment
    due = (holes.timeout > 0) & (holes.since != NEVER) & (now - holes.since >= holes.timeout)
    skips: Bools = rests & is_hole & ~holes.known & due
    return skips


def reservations_over(state: Ints, until: Ints, now: int) -> Bools:
    """Return the entries that become void: reservations that weren't confirmed in time."""
    over: Bools = (state == EntryState.RESERVED) & (until <= now)
    return over


def raised(done_through: Ints, over_through: Ints) -> Ints:
    """Raise `done_through` of sessions by what the asking region's box knows to be over. A box knows a number to be over only from the
    journal. So a session that was forgotten goes on where it was. `done_through`: of each session; below the queue's start by the
    increment, if it was unknown. `over_through`: through which number all is over in the box; `NEVER` for none.
    """
    return np.maximum(done_through, over_through)


def run_over(session: Ints, number: Ints, done_through: Ints, increment: Ints) -> Ints:
    """Return through which number all is over, for each session, when single numbers after `done_through` are. `session`: the rows of the
    sessions, ascending. `number`: numbers that are over, above `done_through`, ascending in each session. `done_through`: of each session.
    `increment`: of each session.
    """
    follows = number == done_through[session] + increment[session] * (rank_in_group(session) + 1)
    unbroken = follows & (sum_before(session, (~follows).astype(np.int64)) == 0)
    return done_through + increment * np.bincount(session[unbroken], minlength=len(done_through)).astype(np.int64)


def recovered(journal: Ints, first: Ints, second: Ints) -> Ints:
    """`done_through` of each session after the journal was restored: the highest that the journal or the box of a region knows."""
    return np.maximum(np.maximum(journal, first), second)
