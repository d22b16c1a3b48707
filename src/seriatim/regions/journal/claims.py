"""Claims: asked for, renewed, completed in a handler's transaction, given back; and what becomes of a message that failed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from uuid import uuid4

import numpy as np

from seriatim.errors import LeaseLost, UsageError
from seriatim.kernel.regions import claims as rules
from seriatim.kernel.regions.claims import Answer, EntryState, Known, State
from seriatim.kernel.values.columns import Ints
from seriatim.kernel.values.time import NEVER
from seriatim.regions.journal.locked import OVER, Entry, LockedSessions, Session, lock
from seriatim.regions.journal.statements import JournalStatements
from seriatim.regions.journal.values import Asked, Claim, ClaimAnswer, Token

__all__ = ["claim", "complete", "fail", "give_back", "postpone", "renew"]


def claim(
    statements: JournalStatements, name: str, queue: str, region: str, asked: Sequence[Asked], *, lease: int, most: int
) -> list[ClaimAnswer]:
    """Ask for messages: of each session at most `most`, from its next number on."""
    if not asked:
        return []
    order = sorted(range(len(asked)), key=lambda at: (asked[at].session, asked[at].number))
    rows = [asked[at] for at in order]
    if most and (quick := _quickly(statements, name, queue, region, rows, lease=lease, most=most)) is not None:
        through = quick.first - quick.increment
        return [ClaimAnswer(Answer.TAKEN, quick, entry=EntryState.KNOWN, through=through)] * len(rows)
    known: dict[str, int] = {}
    for one in rows:
        over = NEVER if one.over_through is None else one.over_through
        known[one.session] = max(over, known.get(one.session, NEVER))
    locked = lock(
        statements, name, queue, known, [(one.session, one.number) for one in rows], opens=True, passes_over=True
    )
    _raise_done(locked, known)
    locked.settle(locked.sessions.values())
    request = _Request(locked, [one for one in rows if one.session in locked.sessions])
    if most:
        request.count_lost()
    request.skip_holes()
    found = request.judged(most)
    given = iter(_Grants(request, region, lease).answers(found))
    locked.write(ends=True)
    answers = [
        next(given) if one.session in locked.sessions else ClaimAnswer(Answer.OVER, through=one.number) for one in rows
    ]
    return [answer for _, answer in sorted(zip(order, answers, strict=True), key=lambda pair: pair[0])]


def _quickly(
    statements: JournalStatements, name: str, queue: str, region: str, rows: Sequence[Asked], *, lease: int, most: int
) -> Claim | None:
    """The claim of one session of which nothing has to be judged, in one statement; None: ask in full.

    Most claims are so. It is worth its statement: a claim takes one round trip in place of two, and a third of the time.
    """
    first, last = rows[0], rows[-1]
    steps = {after.number - one.number for one, after in pairwise(rows)}
    if first.session != last.session or len(rows) > most or len(steps) > 1:
        return None
    if any(one.over_through is not None and one.over_through >= first.number for one in rows):
        return None  # the journal has gone back in time: the box knows more
    ident = str(uuid4())
    found = statements.alone(
        "claim_quickly", name=name, queue=queue, session=first.session, region=region, claim=ident, lease=lease,
        first=first.number, last=last.number, step=next(iter(steps), None), numbers=[one.number for one in rows],
        ids=[one.message_id for one in rows], digests=[one.digest for one in rows],
    )  # fmt: skip
    if not found:
        return None
    token = Token(found[0].incarnation, found[0].version)
    return Claim(name, queue, first.session, ident, token, first.number, last.number, found[0].increment, lease)


@dataclass(slots=True)
class _Request:
    """Messages that are asked for, ascending by session and number, beside what is known of them."""

    locked: LockedSessions
    rows: Sequence[Asked]
    sessions: list[Session] = field(init=False)
    of: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.sessions = [self.locked.sessions[key] for key in sorted(self.locked.sessions)]
        place = {one.session: at for at, one in enumerate(self.sessions)}
        self.of = [place[one.session] for one in self.rows]

    def known(self, one: Asked) -> Known:
        """Whether the journal knows the number of a message: under its id, under another one, or not at all."""
        entry = self.locked.entries.get(one.session, {}).get(one.number)
        if entry is None or entry.message_id is None:
            return Known.NOTHING
        # A vote before the sender had the body knows no digest.
        same = entry.message_id == one.message_id and entry.digest in (None, one.digest)
        return Known.SAME if same else Known.OTHER

    def count_lost(self) -> None:
        """Count an attempt for the numbers that were in work under claims whose leases are over, where somebody takes over."""
        following = [self.locked.next_number(one) for one in self.sessions]
        asked = [False] * len(self.sessions)
        for at, one in zip(self.of, self.rows, strict=True):
            asked[at] |= one.number == following[at] and self.known(one) != Known.OTHER
        lost = rules.lost(
            _ints(one.state for one in self.sessions), _ints(_or_never(one.lease_until) for one in self.sessions),
            asked=np.array(asked, np.bool_), now=self.locked.now,
        )  # fmt: skip
        for session, number, is_lost in zip(self.sessions, following, lost.tolist(), strict=True):
            if is_lost:
                entry = _failed(
                    self.locked, session, number, f"its worker in region {session.region} died, or lost its claim",
                    passes=True, due=None,
                )  # fmt: skip
                session.take_overs += entry == EntryState.FAILED  # else the claim that follows counts it
        self.locked.settle(self.sessions)

    def skip_holes(self) -> None:
        """Note since when the region waits for a number that it doesn't have; skip those numbers whose time has run out."""
        lowest: dict[int, int] = {}
        for at, one in zip(self.of, self.rows, strict=True):
            if one.number > self.sessions[at].done_through and self.known(one) != Known.OTHER:
                lowest[at] = min(one.number, lowest.get(at, one.number))
        rules_, now = self.locked.rules, self.locked.now
        holes = [
            (self.sessions[at], number)
            for at, number in lowest.items()
            if number > self.locked.next_number(self.sessions[at])
        ]
        if not holes:
            return
        for session, number in holes:
            through = number - rules_.increment
            through -= (through - rules_.start) % rules_.increment
            if session.state == State.SUSPENDED:
                continue
            if session.hole_since is None:
                session.hole_since, session.hole_through = now, through
                self.locked.change(session)
            elif session.hole_through is None or through < session.hole_through:
                session.hole_through = through  # the other region has more of them
                self.locked.change(session)
        known = [
            any(one.number < number and one.state not in OVER for one in self.locked.open_entries(session))
            for session, number in holes
        ]
        skips = rules.holes_to_skip(
            rules.Holes(
                _ints(one.state for one, _ in holes), _ints(_or_never(one.lease_until) for one, _ in holes),
                _ints(one.done_through for one, _ in holes), _ints(rules_.increment for _ in holes),
                _ints(number for _, number in holes), np.array(known, np.bool_),
                _ints(_or_never(one.hole_since) for one, _ in holes), _ints(rules_.hole_timeout for _ in holes),
            ),
            now,
        )  # fmt: skip
        for (session, number), skip in zip(holes, skips.tolist(), strict=True):
            last = number - rules_.increment
            if skip and (last - rules_.start) % rules_.increment == 0:
                first = self.locked.next_number(session)
                self.locked.note(Entry(session.session, last, first, EntryState.SKIPPED, fault="its time has run out"))
                session.done_through, session.hole_since = last, None
                session.sent_through = max(session.sent_through, last)
                self.locked.change(session)

    def judged(self, most: int) -> rules.Answers:
        """What the kernel says to each message."""
        of_rules, sessions = self.locked.rules, self.sessions
        size = len(sessions)
        entries = [self.locked.entry(one.session, one.number) for one in self.rows]
        return rules.claimed(
            rules.Sessions(
                np.full(size, of_rules.start, np.int64), np.full(size, of_rules.increment, np.int64),
                _ints(one.done_through for one in sessions), _ints(one.state for one in sessions),
                _ints(_or_never(one.lease_until) for one in sessions),
                _ints(_or_never(one.forgotten_before) for one in sessions),
            ),
            rules.Asked(
                _ints(self.of), _ints(one.number for one in self.rows), _ints(self.known(one) for one in self.rows),
                _ints(-1 if one is None else one.state for one in entries),
                _ints(NEVER if one is None else _or_never(one.due_at) for one in entries),
                _ints(self.locked.now - one.age for one in self.rows),
            ),
            self.locked.now, most,
        )  # fmt: skip


@dataclass(slots=True)
class _Grants:
    """The claims that a request gets."""

    request: _Request
    region: str
    lease: int
    claims: dict[str, Claim] = field(default_factory=dict)
    through: dict[str, int] = field(default_factory=dict)

    def answers(self, found: rules.Answers) -> list[ClaimAnswer]:
        """An answer for each message; what they change is noted."""
        locked, rows = self.request.locked, self.request.rows
        self.through = {one.session: one.done_through for one in self.request.sessions}
        answers = [Answer(one) for one in found.answer.tolist()]
        taken: dict[str, list[Asked]] = {}
        conflicts: set[str] = set()
        for one, answer in zip(rows, answers, strict=True):
            if answer == Answer.TAKEN:
                taken.setdefault(one.session, []).append(one)
            elif answer == Answer.CONFLICT:
                conflicts.add(one.session)
                locked.sessions[one.session].conflicts += 1
        for key, run in taken.items():
            self._grant(locked.sessions[key], run)
        for key in conflicts:
            locked.change(locked.sessions[key])
        return [self._answer(*each) for each in zip(rows, answers, found.again.tolist(), strict=True)]

    def _grant(self, session: Session, run: Sequence[Asked]) -> None:
        locked = self.request.locked
        for one in run:
            before = locked.entries.get(one.session, {}).get(one.number)
            attempts = 0 if before is None else before.attempts
            state = EntryState.KNOWN if before is None else before.state
            locked.note(
                Entry(one.session, one.number, one.number, state, one.message_id, one.digest, attempts, due_at=None)
            )
        session.take_overs += session.state == State.WORKING
        session.state, session.claim, session.region = State.WORKING, str(uuid4()), self.region
        session.version = max(session.version, locked.claim_floor) + 1
        session.lease_until, session.hole_since = locked.now + self.lease, None
        session.sent_through = max(session.sent_through, run[-1].number)
        session.used_at = locked.now
        locked.change(session)
        self.claims[session.session] = Claim(
            locked.name, locked.queue, session.session, session.claim, Token(locked.incarnation, session.version),
            run[0].number, run[-1].number, locked.rules.increment, self.lease,
        )  # fmt: skip

    def _answer(self, one: Asked, answer: Answer, again: int) -> ClaimAnswer:
        entry = self.request.locked.entry(one.session, one.number)
        return ClaimAnswer(
            answer,
            self.claims.get(one.session) if answer == Answer.TAKEN else None,
            None if again == NEVER else max(0, again - self.request.locked.now),
            None if entry is None else EntryState(entry.state),
            self.through[one.session],
        )


def _raise_done(locked: LockedSessions, known: Mapping[str, int]) -> None:
    """What the box of the region that asks knows to be over is over."""
    sessions = [locked.sessions[key] for key in sorted(locked.sessions)]
    done = rules.raised(
        _ints(one.done_through for one in sessions), _ints(known[one.session] for one in sessions)
    ).tolist()
    for one, through in zip(sessions, done, strict=True):
        if through > one.done_through:
            one.done_through, one.sent_through, one.hole_since = through, max(through, one.sent_through), None
            locked.change(one)


def complete(statements: JournalStatements, held: Claim, through: int) -> Claim | None:
    """Complete the numbers of a claim up to one, as the last statement of the handler's transaction.

    The last number of a claim ends it.
    """
    if not held.first <= through <= held.last or (through - held.first) % held.increment:
        raise UsageError(
            f"{through} can't be completed under a claim of {held.first} to {held.last}", where=_place(held),
            remedy="complete the claim's numbers, each once, in order",
        )  # fmt: skip
    done = statements.alone(  # where the handler has written nothing, it is all of the transaction
        "complete", name=held.name, queue=held.queue, session=held.session, claim=held.id, version=held.token.version,
        before=held.first - held.increment, last=through, ends=through == held.last, lease=held.lease,
    )  # fmt: skip
    if not done:
        raise _lost(held)
    return None if through == held.last else replace(held, first=through + held.increment)


def renew(statements: JournalStatements, held: Sequence[Claim]) -> list[Claim]:
    """Renew the leases of claims."""
    kept = {
        row.claim for row in statements.rows("renew", **_columns(held), leases=[one.lease for one in held])
    } if held else set()  # fmt: skip
    return [one for one in held if one.id not in kept]


def give_back(statements: JournalStatements, held: Sequence[Claim]) -> None:
    """End claims; those that are another's by now stay."""
    if held:
        statements.do("give_back", **_columns(held))


def fail(
    statements: JournalStatements, held: Claim, number: int, what: str, *, passes: bool, retry_after: int | None = None,
    most: int | None = None, goes_on: bool | None = None,
) -> EntryState:  # fmt: skip
    """Note that the handler failed on a number; the claim ends."""
    locked = lock(statements, held.name, held.queue, [held.session])
    session = locked.sessions.get(held.session)
    if session is None or not _holds(locked, session, held, number):
        raise _lost(held)
    entry = _failed(
        locked, session, number, what, passes=passes,
        due=locked.now + (locked.rules.retry_after if retry_after is None else retry_after), most=most, goes_on=goes_on,
    )  # fmt: skip
    if entry == EntryState.PENDING:
        _stop(locked, session)
    locked.write(ends=True)
    return entry


def postpone(statements: JournalStatements, held: Claim, number: int, delay: int) -> None:
    """Have a number handed out again after a delay, in either region; the claim ends, and nothing counts as an attempt."""
    locked = lock(statements, held.name, held.queue, [held.session])
    session = locked.sessions.get(held.session)
    if session is None or not _holds(locked, session, held, number):
        raise _lost(held)
    before = locked.entries.get(held.session, {}).get(number) or Entry(held.session, number, number, EntryState.KNOWN)
    locked.note(replace(before, state=EntryState.PENDING, due_at=locked.now + delay))
    _stop(locked, session)
    locked.write(ends=True)


def _failed(
    locked: LockedSessions, session: Session, number: int, what: str, *, passes: bool, due: int | None,
    most: int | None = None, goes_on: bool | None = None,
) -> EntryState:  # fmt: skip
    """Note that an attempt of a number has failed; if it has failed for good, its session stands or goes on."""
    before = locked.entries.get(session.session, {}).get(number)
    before = before or Entry(session.session, number, number, EntryState.KNOWN)
    attempts, of = before.attempts + 1, locked.rules
    entry, state = (
        int(one[0])
        for one in rules.failed(
            _ints([attempts]), _ints([of.attempts if most is None else min(most, of.attempts)]),
            passes=np.array([passes]), goes_on=np.array([of.goes_on if goes_on is None else goes_on]),
        )
    )  # fmt: skip
    locked.note(
        Entry(
            session.session, number, number, entry, before.message_id, before.digest, attempts,
            due if entry == EntryState.PENDING else None, None, what,
        )
    )  # fmt: skip
    if entry == EntryState.FAILED:
        _stop(locked, session, state)
        if state == State.IDLE:
            session.done_through, session.hole_since = number, None
    return EntryState(entry)


def _stop(locked: LockedSessions, session: Session, state: int = State.IDLE) -> None:
    session.state, session.claim, session.region, session.lease_until = state, None, None, None
    session.used_at = locked.now
    locked.change(session)


def _holds(locked: LockedSessions, session: Session, held: Claim, number: int) -> bool:
    holders = rules.Holders(
        _ints([session.state]), _ints([session.done_through]), _ints([locked.rules.increment]),
        np.array([session.claim == held.id]), np.array([session.version == held.token.version]),
        _ints([number]), _ints([number]),
    )  # fmt: skip
    return bool(rules.completes(holders)[0])


def _columns(held: Sequence[Claim]) -> dict[str, list[str] | list[int]]:
    ours = sorted(held, key=lambda one: (one.name, one.queue, one.session))
    return {
        "names": [one.name for one in ours], "queues": [one.queue for one in ours],
        "sessions": [one.session for one in ours], "claims": [one.id for one in ours],
        "versions": [one.token.version for one in ours],
    }  # fmt: skip


def _lost(held: Claim) -> LeaseLost:
    return LeaseLost(
        "the claim is another's by now, or an operator has ended it", where=_place(held),
        remedy="roll back; the message is handled under the other claim",
    )  # fmt: skip


def _place(held: Claim) -> str:
    return f"session {held.session!r} of queue {held.queue!r}"


def _ints(values: Iterable[int]) -> Ints:
    return np.array([int(value) for value in values], np.int64)


def _or_never(value: int | None) -> int:
    return NEVER if value is None else value
