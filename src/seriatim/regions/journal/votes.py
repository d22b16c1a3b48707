"""Votes of the journal on numbers, its knowledge of sessions, and the numbers that it reserves for senders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import uuid4

import numpy as np

from seriatim.errors import UsageError
from seriatim.kernel.regions import votes as rules
from seriatim.kernel.regions.claims import EntryState
from seriatim.kernel.regions.votes import Vote
from seriatim.kernel.values.time import NEVER, micros
from seriatim.regions.journal.locked import OVER, Entry, LockedSessions, lock
from seriatim.regions.journal.statements import JournalStatements
from seriatim.regions.journal.values import Holder, Numbered, Reservation, VoteAnswer


def vote(
    statements: JournalStatements, name: str, queue: str, messages: Sequence[Numbered], *,
    counted: Mapping[str, int] | None = None, renumbers: bool = False,
) -> list[VoteAnswer]:  # fmt: skip
    """Vote on the numbers of messages; all numbers of a session are taken, or none. `renumbers`: the sender has numbered them, and may not
    have seen that they have other numbers: these are void.
    """
    if not messages:
        return []
    if len({(message.session, message.number) for message in messages}) < len(messages):
        raise UsageError("two messages of one session have one number", remedy="give each message its own number")
    order = sorted(range(len(messages)), key=lambda at: (messages[at].session, messages[at].number))
    rows = [messages[at] for at in order]
    is_stale = _is_stale(statements, name, counted)
    numbers = [(row.session, row.number) for row in rows]
    locked = lock(statements, name, queue, [row.session for row in rows], numbers, opens=True)
    place = {key: at for at, key in enumerate(sorted(locked.sessions))}
    entries = [locked.entries.get(row.session, {}).get(row.number) for row in rows]
    had = numbers_of(statements, name, queue, [(row.session, row.message_id) for row in rows if renumbers])
    elsewhere = [had.get((row.session, row.message_id), row.number) != row.number for row in rows]
    votes = rules.voted(
        rules.VoteRequests(
            np.array([place[row.session] for row in rows], np.int64),
            np.array([row.number for row in rows], np.int64),
            np.array([_through(locked, row.session) for row in rows], np.int64),
            np.array([_is_same(entry, row) for entry, row in zip(entries, rows, strict=True)], np.bool_),
            np.full(len(rows), is_stale, np.bool_),
            np.array(elsewhere, np.bool_),
        )
    ).tolist()
    for row, entry, found, is_elsewhere in zip(rows, entries, votes, elsewhere, strict=True):
        if (
            found == Vote.REFUSED
            and is_elsewhere
            and entry is None
            and row.number > locked.sessions[row.session].done_through
        ):
            locked.end(row.session, row.number, "its message has another number")
        if found == Vote.GRANTED:
            locked.note(Entry(row.session, row.number, row.number, EntryState.KNOWN, row.message_id, row.digest))
            session = locked.sessions[row.session]
            session.sent_through, session.used_at = max(session.sent_through, row.number), locked.now
            locked.change(session)
    locked.write(ends=True)
    answers = [VoteAnswer(Vote(found), _through(locked, row.session)) for row, found in zip(rows, votes, strict=True)]
    return [answer for _, answer in sorted(zip(order, answers, strict=True), key=lambda pair: pair[0])]


def bar(
    statements: JournalStatements, name: str, queue: str, messages: Sequence[Numbered], *, age: float,
    counted: Mapping[str, int] | None = None,
) -> list[Vote]:  # fmt: skip
    """Bar messages from numbers that one box has voted for and the other has refused: unknown numbers are void from then on."""
    if not messages:
        return []
    is_stale = _is_stale(statements, name, counted)
    numbers = [(message.session, message.number) for message in messages]
    locked = lock(statements, name, queue, [message.session for message in messages], numbers, opens=True)
    entries = [locked.entry(message.session, message.number) for message in messages]
    same = [_is_same(entry, message) for entry, message in zip(entries, messages, strict=True)]
    forgotten = (locked.sessions[message.session].forgotten_before for message in messages)
    votes = rules.barred(
        np.array(same, np.bool_), np.full(len(same), is_stale, np.bool_), np.full(len(same), locked.now - micros(age), np.int64),
        np.array([NEVER if floor is None else floor for floor in forgotten], np.int64),
    ).tolist()  # fmt: skip
    for message, entry, vote in zip(messages, entries, votes, strict=True):
        session = locked.sessions[message.session]
        if vote == Vote.GRANTED and entry is None and message.number > session.done_through:
            locked.end(message.session, message.number, "its sender has withdrawn it")
            session.used_at = locked.now
    locked.settle(locked.sessions.values())
    locked.write(ends=True)
    return [Vote(vote) for vote in votes]


def through_of(statements: JournalStatements, name: str, queue: str, sessions: Sequence[str]) -> dict[str, int]:
    """Return the highest number that the journal knows of each session; unknown sessions are missing."""
    if not sessions:
        return {}
    locked = lock(statements, name, queue, sessions)
    return {key: _through(locked, key) for key in locked.sessions}


def done_of(statements: JournalStatements, name: str, queue: str, sessions: Sequence[str]) -> dict[str, int]:
    """Return through which number each session is over; unknown sessions are missing."""
    if not sessions:
        return {}
    locked = lock(statements, name, queue, sessions)
    return {key: session.done_through for key, session in locked.sessions.items()}


def holders_of(
    statements: JournalStatements, name: str, queue: str, numbers: Sequence[tuple[str, int]]
) -> list[Holder]:
    if not numbers:
        return []
    locked = lock(statements, name, queue, [session for session, _ in numbers], numbers)
    holders = []
    for key, number in numbers:
        session, entry = locked.sessions.get(key), locked.entry(key, number)
        is_over = session is not None and number <= session.done_through
        is_reserved = entry is not None and entry.state == EntryState.RESERVED
        # Like `confirm`: a reservation is void after its time, even before that is written.
        waits = entry is not None and is_reserved and entry.due_at is not None and entry.due_at > locked.now
        is_void = entry is not None and (entry.state in OVER or (is_reserved and not waits))
        holders.append(Holder(None if entry is None else entry.message_id, is_over, is_void))
    return holders


def numbers_of(
    statements: JournalStatements, name: str, queue: str, messages: Sequence[tuple[str, str]]
) -> dict[tuple[str, str], int]:
    """Return the numbers of messages, by session and id; messages without one are missing."""
    if not messages:
        return {}
    wanted = set(messages)
    rows = statements.rows(
        "numbers_of", name=name, queue=queue, sessions=sorted({session for session, _ in wanted}),
        ids=[ident for _, ident in messages],
    )  # fmt: skip
    return {(row.session, row.message_id): row.number for row in rows if (row.session, row.message_id) in wanted}


def reserve(
    statements: JournalStatements, name: str, queue: str, counts: Mapping[str, int], *, lease: float | str = 10.0
) -> dict[str, list[Reservation]]:
    """Reserve the next numbers of sessions; those that aren't confirmed before their lease ends are void."""
    if not counts:
        return {}
    if min(counts.values()) < 1:
        raise UsageError(
            "fewer than one number can't be reserved", remedy="give the number of messages of each session"
        )
    locked = lock(statements, name, queue, counts, opens=True)
    reservations: dict[str, list[Reservation]] = {}
    for key in sorted(counts):
        session, ident = locked.sessions[key], str(uuid4())
        step, through = locked.rules.increment, _through(locked, key)
        reservations[key] = [Reservation(key, through + step * place, ident) for place in range(1, counts[key] + 1)]
        for reservation in reservations[key]:
            until = locked.now + micros(lease)
            locked.note(
                Entry(key, reservation.number, reservation.number, EntryState.RESERVED, due_at=until, reservation=ident)
            )
        session.sent_through, session.used_at = through + step * counts[key], locked.now
        locked.change(session)
    locked.write(ends=True)
    return reservations


def confirm(
    statements: JournalStatements, name: str, queue: str, kept: Sequence[tuple[Reservation, Numbered]]
) -> list[Reservation]:
    """Confirm reservations, each for its message. A message that has a number in its session gets no second one."""
    if not kept:
        return []
    # Two calls for one message run one after the other.
    lock(statements, name, queue, [reservation.session for reservation, _ in kept])
    had = numbers_of(
        statements, name, queue, [(reservation.session, message.message_id) for reservation, message in kept]
    )
    ours = sorted(
        (pair for pair in kept if had.get((pair[0].session, pair[1].message_id), pair[0].number) == pair[0].number),
        key=lambda pair: (pair[0].session, pair[0].number),
    )
    rows = statements.rows(
        "confirm", name=name, queue=queue, sessions=[reservation.session for reservation, _ in ours],
        numbers=[reservation.number for reservation, _ in ours], reservations=[reservation.id for reservation, _ in ours],
        ids=[message.message_id for _, message in ours], digests=[message.digest for _, message in ours],
    )  # fmt: skip
    confirmed = {(row.session, row.number) for row in rows}
    return [reservation for reservation, _ in kept if (reservation.session, reservation.number) not in confirmed]


def fence(statements: JournalStatements, name: str, region: str, incarnation: int) -> None:
    """Note the incarnation of a region's box: neither votes nor reports of an earlier one count any more."""
    statements.do("fence", name=name, region=region, incarnation=incarnation)


def _is_stale(statements: JournalStatements, name: str, counted: Mapping[str, int] | None) -> bool:
    """Return whether a call counts the vote of a box that was restored since; until it ends no such box learns the numbers."""
    if not counted:
        return False
    fences = {row.region: row.incarnation for row in statements.rows("hold_regions", name=name)}
    return any(fences.get(region, 0) > incarnation for region, incarnation in counted.items())


def _through(locked: LockedSessions, key: str) -> int:
    session = locked.sessions[key]
    return max(session.sent_through, session.done_through)


def _is_same(entry: Entry | None, message: Numbered) -> bool:
    return entry is not None and entry.message_id == message.message_id and entry.digest in (None, message.digest)
