"""Claims: asked for, renewed, completed in a handler's transaction, given back; and the results of failed messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from uuid import uuid4

import numpy as np

from seriatim.errors import LeaseLost, UsageError
from seriatim.kernel.regions import claims as rules
from seriatim.kernel.regions.claims import EntryState, JournalAnswer, Known, SessionState
from seriatim.kernel.values.time import NEVER, micros
from seriatim.regions.journal.locked import OVER, Entry, LockedSessions, Session, ints, lock, or_never
from seriatim.regions.journal.statements import JournalStatements
from seriatim.regions.journal.values import Claim, ClaimAnswer, Token, WantedMessage


def claim(
    statements: JournalStatements,
    name: str,
    queue: str,
    region: str,
    messages: Sequence[WantedMessage],
    *,
    lease: int,
    most: int,
) -> list[ClaimAnswer]:
    """Ask for messages: of each session at most `most`, from its next number on."""
    if not messages:
        return []
    order = sorted(range(len(messages)), key=lambda at: (messages[at].session, messages[at].number))
    rows = [messages[at] for at in order]
    if most and (quick := _quickly(statements, name, queue, region, rows, lease=lease, most=most)) is not None:
        through = quick.first - quick.increment
        return [ClaimAnswer(JournalAnswer.TAKEN, quick, entry=EntryState.KNOWN, through=through)] * len(rows)
    known: dict[str, int] = {}
    for row in rows:
        over = NEVER if row.over_through is None else row.over_through
        known[row.session] = max(over, known.get(row.session, NEVER))
    locked = lock(
        statements, name, queue, known, [(row.session, row.number) for row in rows], opens=True, passes_over=True
    )
    _raise_done(locked, known)
    locked.settle(locked.sessions.values())
    request = _Request(locked, [row for row in rows if row.session in locked.sessions])
    if most:
        request.count_lost()
        request.end_voided()
    request.skip_holes()
    judged = request.judged(most)
    granted = iter(_Grants(request, region, lease).answers(judged))
    locked.write(ends=True)
    answers = [
        next(granted) if row.session in locked.sessions else ClaimAnswer(JournalAnswer.OVER, through=row.number)
        for row in rows
    ]
    return [answer for _, answer in sorted(zip(order, answers, strict=True), key=lambda pair: pair[0])]


def _quickly(
    statements: JournalStatements,
    name: str,
    queue: str,
    region: str,
    rows: Sequence[WantedMessage],
    *,
    lease: int,
    most: int,
) -> Claim | None:
    """Claim one session without anything to judge, in one round trip, a third of the time; None: ask in full."""
    first, last = rows[0], rows[-1]
    steps = {after.number - row.number for row, after in pairwise(rows)}
    if first.session != last.session or len(rows) > most or len(steps) > 1:
        return None
    if any(row.over_through is not None and row.over_through >= first.number for row in rows):
        return None  # the journal has gone back in time: the box knows more
    if any(row.withdrawn for row in rows):
        return None
    ident = str(uuid4())
    answer = statements.alone(
        "claim_quickly", name=name, queue=queue, session=first.session, region=region, claim=ident, lease=lease,
        first=first.number, last=last.number, step=next(iter(steps), None), numbers=[row.number for row in rows],
        ids=[row.message_id for row in rows], digests=[row.digest for row in rows],
    )  # fmt: skip
    if not answer:
        return None
    token = Token(answer[0].incarnation, answer[0].version)
    return Claim(name, queue, first.session, ident, token, first.number, last.number, answer[0].increment, lease)


@dataclass(slots=True)
class _Request:
    """The messages of a request, ascending by session and number, with the journal's knowledge of them."""

    locked: LockedSessions
    rows: Sequence[WantedMessage]
    sessions: list[Session] = field(init=False)
    of: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.sessions = [self.locked.sessions[key] for key in sorted(self.locked.sessions)]
        place = {session.session: at for at, session in enumerate(self.sessions)}
        self.of = [place[row.session] for row in self.rows]

    def known(self, message: WantedMessage) -> Known:
        """Return whether the journal knows the number of a message: under its id, under another one, or not at all."""
        entry = self.locked.entries.get(message.session, {}).get(message.number)
        if entry is None or entry.message_id is None:
            return Known.NOTHING
        # A vote from before the sender had the body knows no digest.
        same = entry.message_id == message.message_id and entry.digest in (None, message.digest)
        return Known.SAME if same else Known.OTHER

    def count_lost(self) -> None:
        """Count an attempt for the numbers under expired claims, where another holder takes over."""
        following = [self.locked.next_number(own) for own in self.sessions]
        is_asked = [False] * len(self.sessions)
        for at, row in zip(self.of, self.rows, strict=True):
            is_asked[at] |= row.number == following[at] and self.known(row) != Known.OTHER
        lost = rules.lost(
            ints(own.state for own in self.sessions), ints(or_never(own.lease_until) for own in self.sessions),
            asked=np.array(is_asked, np.bool_), now=self.locked.now,
        )  # fmt: skip
        for session, number, is_lost in zip(self.sessions, following, lost.tolist(), strict=True):
            if is_lost:
                entry = _failed(
                    self.locked, session, number, f"its worker in region {session.region} died, or lost its claim",
                    passes=True, due=None,
                )  # fmt: skip
                session.take_overs += entry == EntryState.FAILED  # else the claim that follows counts it
        self.locked.settle(self.sessions)

    def end_voided(self) -> None:
        """End the numbers of messages that are withdrawn, or known under higher numbers."""
        of_rules = self.locked.rules
        asked = [
            row for at, row in zip(self.of, self.rows, strict=True)
            if row.number > self.sessions[at].done_through and (row.number - of_rules.start) % of_rules.increment == 0
        ]  # fmt: skip
        highest = {
            (entry.session, entry.message_id): entry.number
            for session in self.sessions for entry in self.locked.open_entries(session) if entry.state not in OVER
        }  # fmt: skip
        entries = [self.locked.entry(row.session, row.number) for row in asked]
        ends = rules.voided(
            ints(-1 if entry is None else entry.state for entry in entries),
            withdrawn=np.array([row.withdrawn for row in asked], np.bool_),
            renumbered=np.array(
                [highest.get((row.session, row.message_id), NEVER) > row.number for row in asked], np.bool_
            ),
        )
        for row, ended in zip(asked, ends.tolist(), strict=True):
            if ended:
                self.locked.end(row.session, row.number, "its message has another number, or none")
        self.locked.settle(self.sessions)

    def skip_holes(self) -> None:
        """Note since when the region waits for a missing number; skip those numbers whose time is over."""
        lowest: dict[int, int] = {}
        for at, row in zip(self.of, self.rows, strict=True):
            if row.number > self.sessions[at].done_through and self.known(row) != Known.OTHER:
                lowest[at] = min(row.number, lowest.get(at, row.number))
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
            if session.state == SessionState.SUSPENDED:
                continue
            if session.hole_since is None:
                session.hole_since, session.hole_through = now, through
                self.locked.change(session)
            elif session.hole_through is None or through < session.hole_through:
                session.hole_through = through  # the other region has more of them
                self.locked.change(session)
        known = [
            any(entry.number < number and entry.state not in OVER for entry in self.locked.open_entries(session))
            for session, number in holes
        ]
        skips = rules.holes_to_skip(
            rules.Holes(
                ints(session.state for session, _ in holes), ints(or_never(session.lease_until) for session, _ in holes),
                ints(session.done_through for session, _ in holes), ints(rules_.increment for _ in holes),
                ints(number for _, number in holes), np.array(known, np.bool_),
                ints(or_never(session.hole_since) for session, _ in holes), ints(rules_.hole_timeout for _ in holes),
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
        of_rules, sessions = self.locked.rules, self.sessions
        size = len(sessions)
        entries = [self.locked.entry(row.session, row.number) for row in self.rows]
        return rules.claimed(
            rules.Sessions(
                np.full(size, of_rules.start, np.int64), np.full(size, of_rules.increment, np.int64),
                ints(session.done_through for session in sessions), ints(session.state for session in sessions),
                ints(or_never(session.lease_until) for session in sessions),
                ints(or_never(session.forgotten_before) for session in sessions),
            ),
            rules.ClaimRequests(
                ints(self.of), ints(row.number for row in self.rows), ints(self.known(row) for row in self.rows),
                ints(-1 if entry is None else entry.state for entry in entries),
                ints(NEVER if entry is None else or_never(entry.due_at) for entry in entries),
                ints(self.locked.now - row.age for row in self.rows),
            ),
            self.locked.now, most,
        )  # fmt: skip


@dataclass(slots=True)
class _Grants:
    request: _Request
    region: str
    lease: int
    claims: dict[str, Claim] = field(default_factory=dict)
    through: dict[str, int] = field(default_factory=dict)

    def answers(self, judged: rules.Answers) -> list[ClaimAnswer]:
        """Return an answer for each message, and note its changes."""
        locked, rows = self.request.locked, self.request.rows
        self.through = {session.session: session.done_through for session in self.request.sessions}
        answers = [JournalAnswer(word) for word in judged.answer.tolist()]
        granted: dict[str, list[WantedMessage]] = {}
        conflicts: set[str] = set()
        for row, answer in zip(rows, answers, strict=True):
            if answer == JournalAnswer.TAKEN:
                granted.setdefault(row.session, []).append(row)
            elif answer == JournalAnswer.CONFLICT:
                conflicts.add(row.session)
                locked.sessions[row.session].conflicts += 1
        for key, run in granted.items():
            self._grant(locked.sessions[key], run)
        for key in conflicts:
            locked.change(locked.sessions[key])
        return [self._answer(*each) for each in zip(rows, answers, judged.again.tolist(), strict=True)]

    def _grant(self, session: Session, run: Sequence[WantedMessage]) -> None:
        locked = self.request.locked
        for message in run:
            before = locked.entries.get(message.session, {}).get(message.number)
            attempts = 0 if before is None else before.attempts
            state = EntryState.KNOWN if before is None else before.state
            place = message.session, message.number, message.number
            locked.note(Entry(*place, state, message.message_id, message.digest, attempts))
        session.take_overs += session.state == SessionState.WORKING
        session.state, session.claim, session.region = SessionState.WORKING, str(uuid4()), self.region
        session.version = max(session.version, locked.claim_floor) + 1
        session.lease_until, session.hole_since = locked.now + self.lease, None
        session.sent_through = max(session.sent_through, run[-1].number)
        session.used_at = locked.now
        locked.change(session)
        self.claims[session.session] = Claim(
            locked.name, locked.queue, session.session, session.claim, Token(locked.incarnation, session.version),
            run[0].number, run[-1].number, locked.rules.increment, self.lease,
        )  # fmt: skip

    def _answer(self, message: WantedMessage, answer: JournalAnswer, again: int) -> ClaimAnswer:
        entry = self.request.locked.entry(message.session, message.number)
        return ClaimAnswer(
            answer,
            self.claims.get(message.session) if answer == JournalAnswer.TAKEN else None,
            None if again == NEVER else max(0, again - self.request.locked.now),
            None if entry is None else EntryState(entry.state),
            self.through[message.session],
        )


def _raise_done(locked: LockedSessions, known: Mapping[str, int]) -> None:
    """Note as over the numbers that the asking region's box knows to be over."""
    sessions = [locked.sessions[key] for key in sorted(locked.sessions)]
    done = rules.raised(
        ints(session.done_through for session in sessions), ints(known[session.session] for session in sessions)
    ).tolist()
    for session, through in zip(sessions, done, strict=True):
        if through > session.done_through:
            session.done_through, session.hole_since = through, None
            session.sent_through = max(through, session.sent_through)
            locked.change(session)


def complete(statements: JournalStatements, held: Claim, through: int) -> Claim | None:
    """Complete the numbers of a claim up to one, as the last statement of the handler's transaction. The last number of a claim ends it."""
    if not held.first <= through <= held.last or (through - held.first) % held.increment:
        raise UsageError(
            f"{through} can't be completed under a claim of {held.first} to {held.last}",
            where=_place(held),
            remedy="complete the claim's numbers, each once, in order",
        )
    done = statements.alone(  # where the handler has written nothing, it is all of the transaction
        "complete", name=held.name, queue=held.queue, session=held.session, claim=held.id, version=held.token.version,
        before=held.first - held.increment, last=through, ends=through == held.last, lease=held.lease,
    )  # fmt: skip
    if not done:
        raise _lost(held)
    return None if through == held.last else replace(held, first=through + held.increment)


def renew(statements: JournalStatements, held: Sequence[Claim]) -> list[Claim]:
    """Renew the leases of claims, in one statement."""
    kept = {
        row.claim for row in statements.rows("renew", **_columns(held), leases=[claim.lease for claim in held])
    } if held else set()  # fmt: skip
    return [claim for claim in held if claim.id not in kept]


def give_back(statements: JournalStatements, held: Sequence[Claim]) -> None:
    """End claims; those that are another's by now stay."""
    if held:
        statements.do("give_back", **_columns(held))


def fail(
    statements: JournalStatements, held: Claim, number: int, reason: str, *, passes: bool = True,
    retry_after: float | str | None = None, most: int | None = None, goes_on: bool | None = None,
) -> EntryState:  # fmt: skip
    """Note that a handler failed, after its transaction was rolled back. The claim ends."""
    text = reason.replace("\0", "�").encode("utf-8", "replace").decode()
    locked, session = _held(statements, held, number)
    entry = _failed(
        locked, session, number, text, passes=passes,
        due=locked.now + (locked.rules.retry_after if retry_after is None else micros(retry_after)), most=most, goes_on=goes_on,
    )  # fmt: skip
    if entry == EntryState.PENDING:
        _stop(locked, session)
    locked.write(ends=True)
    return entry


def postpone(statements: JournalStatements, held: Claim, number: int, delay: float | str) -> None:
    """Have a message handed out again after a delay, in either region; the claim ends, and no attempt is counted."""
    locked, session = _held(statements, held, number)
    locked.note(
        replace(locked.known(held.session, number), state=EntryState.PENDING, due_at=locked.now + micros(delay))
    )
    _stop(locked, session)
    locked.write(ends=True)


def _failed(
    locked: LockedSessions, session: Session, number: int, reason: str, *, passes: bool, due: int | None,
    most: int | None = None, goes_on: bool | None = None,
) -> EntryState:  # fmt: skip
    """Note that an attempt of a number has failed; after the last one the session is suspended or goes on."""
    before = locked.known(session.session, number)
    attempts, of = before.attempts + 1, locked.rules
    entry, state = (
        int(column[0])
        for column in rules.failed(
            ints([attempts]), ints([of.attempts if most is None else min(most, of.attempts)]),
            passes=np.array([passes]), goes_on=np.array([of.goes_on if goes_on is None else goes_on]),
        )
    )  # fmt: skip
    locked.note(
        Entry(
            session.session, number, number, entry, before.message_id, before.digest, attempts,
            due if entry == EntryState.PENDING else None, None, reason,
        )
    )  # fmt: skip
    if entry == EntryState.FAILED:
        _stop(locked, session, state)
        if state == SessionState.IDLE:
            session.done_through, session.hole_since = number, None
    return EntryState(entry)


def _stop(locked: LockedSessions, session: Session, state: int = SessionState.IDLE) -> None:
    session.stop(state)
    session.used_at = locked.now
    locked.change(session)


def _held(statements: JournalStatements, held: Claim, number: int) -> tuple[LockedSessions, Session]:
    """Lock the session of a claim that still has this number."""
    locked = lock(statements, held.name, held.queue, [held.session])
    if (session := locked.sessions.get(held.session)) is None:
        raise _lost(held)
    holders = rules.Holders(
        ints([session.state]), ints([session.done_through]), ints([locked.rules.increment]),
        np.array([session.claim == held.id]), np.array([session.version == held.token.version]),
        ints([number]), ints([number]),
    )  # fmt: skip
    if not rules.completes(holders)[0]:
        raise _lost(held)
    return locked, session


def _columns(held: Sequence[Claim]) -> dict[str, list[str] | list[int]]:
    ours = sorted(held, key=lambda claim: (claim.name, claim.queue, claim.session))
    return {
        "names": [claim.name for claim in ours], "queues": [claim.queue for claim in ours],
        "sessions": [claim.session for claim in ours], "claims": [claim.id for claim in ours],
        "versions": [claim.token.version for claim in ours],
    }  # fmt: skip


def _lost(held: Claim) -> LeaseLost:
    return LeaseLost(
        "the claim is another's by now, or an operator has ended it",
        where=_place(held),
        remedy="roll back; the message is handled under the other claim",
    )


def _place(held: Claim) -> str:
    return f"session {held.session!r} of queue {held.queue!r}"
