"""Sessions under their locks: read with the known numbers, changed by the kernel's decisions, and written back as sets.

A transaction does this once, so any number of sessions and messages takes two round trips: one that notes unknown sessions, locks and
reads, and one that writes. Statements that only compare and change a row (a completion, a heartbeat) don't need it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from operator import attrgetter
from typing import Any

import numpy as np
from psycopg import errors

from seriatim.errors import NotFound, UsageError, shown
from seriatim.kernel.regions import claims
from seriatim.kernel.regions.claims import EntryState
from seriatim.kernel.values.columns import Ints
from seriatim.kernel.values.time import NEVER
from seriatim.regions.journal.statements import JournalStatements

#: A number that failed is over with `done_through` raised, or stops its session.
OVER = (EntryState.SKIPPED, EntryState.VOID)


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of both regions for a queue; times in microseconds, 0: no time-out."""

    start: int
    increment: int
    attempts: int
    goes_on: bool
    retry_after: int
    hole_timeout: int
    forgotten_before: int | None
    #: All sessions whose keys are below this one are over, and forgotten.
    over_before: str | None

    def is_over(self, session: str) -> bool:
        """Whether a session is over, and forgotten, whatever its numbers were."""
        return self.over_before is not None and session < self.over_before  # the order of UTF-8's bytes


@dataclass(slots=True)
class Session:
    session: str
    done_through: int
    sent_through: int
    state: int
    version: int
    claim: str | None
    region: str | None
    lease_until: int | None
    hole_since: int | None
    hole_through: int | None
    forgotten_before: int | None
    take_overs: int
    conflicts: int
    used_at: int

    def stop(self, state: int) -> None:
        """End its claim, if it has one."""
        self.state, self.claim, self.region, self.lease_until = state, None, None, None


#: The fields of a session in a row with more columns.
_of_session = attrgetter(*(field.name for field in fields(Session)))


@dataclass(frozen=True, slots=True)
class Entry:
    """The entry of a number, or of the numbers from `first_number` on, like its row."""

    session: str
    number: int
    first_number: int
    state: int
    message_id: str | None = None
    digest: bytes | None = None
    attempts: int = 0
    due_at: int | None = None
    reservation: str | None = None
    fault: str | None = None


@dataclass(slots=True)
class LockedSessions:
    statements: JournalStatements
    name: str
    queue: str
    rules: Rules
    sessions: Mapping[str, Session]
    #: The known entries of their numbers, by session, then number: all that aren't over, and the requested ones.
    entries: dict[str, dict[int, Entry]]
    now: int
    incarnation: int
    claim_floor: int
    _changed: dict[str, Session] = field(default_factory=dict)
    _noted: dict[tuple[str, int], Entry] = field(default_factory=dict)

    def change(self, session: Session) -> None:
        self._changed[session.session] = session

    def note(self, entry: Entry) -> None:
        self.entries.setdefault(entry.session, {})[entry.number] = entry
        self._noted[entry.session, entry.number] = entry

    def end(self, session: str, number: int, why: str) -> None:
        """Make an unknown number void."""
        self.note(Entry(session, number, number, EntryState.VOID, fault=why))
        own = self.sessions[session]
        own.sent_through = max(own.sent_through, number)
        self.change(own)

    def open_entries(self, session: Session) -> Iterator[Entry]:
        """Return the entries of a session's numbers that aren't over, ascending."""
        ours = self.entries.get(session.session, {})
        return (ours[number] for number in sorted(ours) if number > session.done_through)

    def entry(self, session: str, number: int) -> Entry | None:
        ours = self.entries.get(session, {})
        if (exact := ours.get(number)) is not None:
            return exact
        return next((entry for entry in ours.values() if entry.first_number <= number <= entry.number), None)

    def known(self, session: str, number: int) -> Entry:
        """Return the entry of a number by itself; a new one, if it has none."""
        exact = self.entries.get(session, {}).get(number)
        return exact or Entry(session, number, number, EntryState.KNOWN)

    def next_number(self, session: Session) -> int:
        return session.done_through + self.rules.increment

    def settle(self, sessions: Iterable[Session]) -> None:
        """End expired reservations, and raise `done_through` where single numbers after it are over."""
        ours = list(sessions)
        rows = [(at, entry) for at, session in enumerate(ours) for entry in self.open_entries(session)]
        states = ints(entry.state for _, entry in rows)
        ends = claims.reservations_over(states, ints(or_never(entry.due_at) for _, entry in rows), self.now)
        for (_, entry), ended in zip(rows, ends.tolist(), strict=True):
            if ended:
                self.note(replace(entry, state=EntryState.VOID, due_at=None))
        over = [(at, entry.number) for at, entry in rows if self.entries[entry.session][entry.number].state in OVER]
        through = claims.run_over(
            ints(at for at, _ in over), ints(number for _, number in over),
            ints(session.done_through for session in ours), np.full(len(ours), self.rules.increment, np.int64),
        )  # fmt: skip
        for session, done in zip(ours, through.tolist(), strict=True):
            if done > session.done_through:
                session.done_through, session.hole_since = done, None
                self.change(session)

    def write(self, *, ends: bool = False) -> None:
        """Write all changes, in one round trip; with `ends` the transaction commits in it."""
        place = {"name": self.name, "queue": self.queue}
        parameters = []
        if self._changed:
            rows = [self._changed[key] for key in sorted(self._changed)]
            parameters.append(("write_sessions", place | _columns(rows)))
        if self._noted:
            noted = [self._noted[key] for key in sorted(self._noted)]
            parameters.append(("write_entries", place | _columns(noted)))
        if parameters:
            self.statements.several(*parameters, ends=ends)


def lock(
    statements: JournalStatements, name: str, queue: str, sessions: Iterable[str], numbers_asked: Iterable[tuple[str, int]] = (), *,
    opens: bool = False, passes_over: bool = False,
) -> LockedSessions:  # fmt: skip
    """Lock sessions, and read them. `opens`: unknown ones, too; those that are over are refused, or left out (`passes_over`)."""
    keys, numbers = sorted(set(sessions)), list(numbers_asked)
    place = {"name": name, "queue": queue}
    of_numbers = {"asked": [session for session, _ in numbers], "numbers": [number for _, number in numbers]}
    *_, rules, locked, entries = statements.several(
        *([("open_sessions", place | {"sessions": keys})] if opens else []),
        ("read_queue", place),
        ("lock_sessions", place | {"sessions": keys}),
        ("read_entries", place | {"sessions": keys} | of_numbers),
    )
    if not rules:
        raise NotFound(
            f"the journal knows no queue {queue!r} of the regions {name!r}", remedy="define it first: journal.define(…)"
        )
    if opens and len(locked) < len(keys):
        _check_missing(Rules(*rules[0]), queue, set(keys) - {row.session for row in locked}, passes_over=passes_over)
    now, incarnation, floor = (locked[0].now, locked[0].incarnation, locked[0].claim_floor) if locked else (0, 0, 0)
    by_number: dict[str, dict[int, Entry]] = {}
    for row in entries:
        by_number.setdefault(row.session, {})[row.number] = Entry(*row)
    return LockedSessions(
        statements, name, queue, Rules(*rules[0]),
        {row.session: Session(*_of_session(row)) for row in locked},
        by_number,
        now, incarnation, floor,
    )  # fmt: skip


def _check_missing(rules: Rules, queue: str, missing: Iterable[str], *, passes_over: bool) -> None:
    """Refuse sessions that couldn't be opened, because they are over; repeat the transaction where they were forgotten meanwhile."""
    for session in sorted(missing):
        if not rules.is_over(session):
            raise errors.SerializationFailure(f"session {shown(session, 80)} was forgotten at this moment")
        if not passes_over:
            raise UsageError(
                f"sessions before {shown(rules.over_before, 80)} are over, and take no messages",
                where=f"queue {queue!r}, session {shown(session, 80)}",
                remedy="send it under the key of another session",
            )


def _columns(rows: Sequence[Session | Entry]) -> dict[str, list[Any]]:
    return {one.name: [getattr(row, one.name) for row in rows] for one in fields(rows[0])}


def ints(values: Iterable[int]) -> Ints:
    return np.array([int(value) for value in values], np.int64)


def or_never(value: int | None) -> int:
    return NEVER if value is None else value
