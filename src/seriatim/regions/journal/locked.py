"""Sessions under their locks: read with all that is known of their numbers, changed as the kernel decides, and written back as sets.

A transaction does this once, so any number of sessions and messages take two round trips: one that notes unknown sessions, locks and reads, and one that
writes. JournalStatements that only compare and change a row (a completion, a heartbeat) don't need it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from operator import attrgetter

import numpy as np
from psycopg import errors

from seriatim.errors import NotFound, UsageError, shown
from seriatim.kernel.regions import claims
from seriatim.kernel.regions.claims import EntryState
from seriatim.kernel.values.columns import Ints
from seriatim.kernel.values.time import NEVER
from seriatim.regions.journal.statements import JournalStatements

__all__ = ["OVER", "Entry", "LockedSessions", "Rules", "Session", "lock"]

#: A number that failed is over with `done_through` raised, or stops its session.
OVER = (EntryState.SKIPPED, EntryState.VOID)


@dataclass(frozen=True, slots=True)
class Rules:
    """What both regions say of a queue; times in microseconds, 0: no time-out."""

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
    """A session, as its row is."""

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


#: The fields of a session in a row that has others beside them.
_of_session = attrgetter(*(one.name for one in fields(Session)))


@dataclass(frozen=True, slots=True)
class Entry:
    """What is known of a number, or of the numbers from `first_number` on, as its row is."""

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
    """Sessions of one queue, under their locks."""

    statements: JournalStatements
    name: str
    queue: str
    rules: Rules
    sessions: Mapping[str, Session]
    #: What is known of their numbers, by session, then number: of all that aren't over, and of those that were asked for.
    entries: dict[str, dict[int, Entry]]
    now: int
    incarnation: int
    claim_floor: int
    _changed: dict[str, Session] = field(default_factory=dict)
    _noted: dict[tuple[str, int], Entry] = field(default_factory=dict)

    def change(self, session: Session) -> None:
        """Have a session written that was changed."""
        self._changed[session.session] = session

    def note(self, entry: Entry) -> None:
        """Have written what is known of a number now."""
        self.entries.setdefault(entry.session, {})[entry.number] = entry
        self._noted[entry.session, entry.number] = entry

    def open_entries(self, session: Session) -> Iterator[Entry]:
        """What is known of a session's numbers that aren't over, ascending."""
        ours = self.entries.get(session.session, {})
        return (ours[number] for number in sorted(ours) if number > session.done_through)

    def entry(self, session: str, number: int) -> Entry | None:
        """What is known of a number: in an entry of its own, or in that of a range."""
        ours = self.entries.get(session, {})
        if (exact := ours.get(number)) is not None:
            return exact
        return next((one for one in ours.values() if one.first_number <= number <= one.number), None)

    def next_number(self, session: Session) -> int:
        """The number that comes next."""
        return session.done_through + self.rules.increment

    def settle(self, sessions: Iterable[Session]) -> None:
        """End the reservations that are over, and raise `done_through` where single numbers behind it are over."""
        ours = list(sessions)
        rows = [(at, one) for at, session in enumerate(ours) for one in self.open_entries(session)]
        states = _column(one.state for _, one in rows)
        ends = claims.reservations_over(states, _column(_or_never(one.due_at) for _, one in rows), self.now)
        for (_, one), ended in zip(rows, ends.tolist(), strict=True):
            if ended:
                self.note(replace(one, state=EntryState.VOID, due_at=None))
        over = [(at, one.number) for at, one in rows if self.entries[one.session][one.number].state in OVER]
        through = claims.run_over(
            _column(at for at, _ in over), _column(number for _, number in over),
            _column(one.done_through for one in ours), np.full(len(ours), self.rules.increment, np.int64),
        )  # fmt: skip
        for session, done in zip(ours, through.tolist(), strict=True):
            if done > session.done_through:
                session.done_through, session.hole_since = done, None
                self.change(session)

    def write(self, *, ends: bool = False) -> None:
        """Write all that was changed and noted, in one round trip; with `ends` the transaction commits in it."""
        asked = []
        place = {"name": self.name, "queue": self.queue}
        if rows := [self._changed[key] for key in sorted(self._changed)]:
            columns = {
                "sessions": [one.session for one in rows], "done": [one.done_through for one in rows],
                "sent": [one.sent_through for one in rows], "states": [int(one.state) for one in rows],
                "versions": [one.version for one in rows], "claims": [one.claim for one in rows],
                "regions": [one.region for one in rows], "leases": [one.lease_until for one in rows],
                "holes": [one.hole_since for one in rows], "hole_throughs": [one.hole_through for one in rows], "forgotten": [one.forgotten_before for one in rows],
                "take_overs": [one.take_overs for one in rows], "conflicts": [one.conflicts for one in rows],
                "used": [one.used_at for one in rows],
            }  # fmt: skip
            asked.append(("write_sessions", place | columns))
        if noted := [self._noted[key] for key in sorted(self._noted)]:
            columns = {
                "sessions": [one.session for one in noted], "numbers": [one.number for one in noted],
                "first": [one.first_number for one in noted], "states": [int(one.state) for one in noted],
                "ids": [one.message_id for one in noted], "digests": [one.digest for one in noted],
                "attempts": [one.attempts for one in noted], "due": [one.due_at for one in noted],
                "reservations": [one.reservation for one in noted], "faults": [one.fault for one in noted],
            }  # fmt: skip
            asked.append(("write_entries", place | columns))
        if asked:
            self.statements.several(*asked, ends=ends)


def lock(
    statements: JournalStatements, name: str, queue: str, sessions: Iterable[str], asked: Iterable[tuple[str, int]] = (), *,
    opens: bool = False, passes_over: bool = False,
) -> LockedSessions:  # fmt: skip
    """Lock sessions, and read them.

    `opens`: those that aren't known, too. Where all sessions below a key are over, such a session is refused, or left out (`passes_over`).
    """
    keys, numbers = sorted(set(sessions)), list(asked)
    place = {"name": name, "queue": queue}
    of_numbers = {"asked": [one for one, _ in numbers], "numbers": [number for _, number in numbers]}
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
                where=f"queue {queue!r}, session {shown(session, 80)}", remedy="send it under the key of another session",
            )  # fmt: skip


def _column(values: Iterable[int]) -> Ints:
    return np.array(list(values), np.int64)


def _or_never(value: int | None) -> int:
    return NEVER if value is None else value
