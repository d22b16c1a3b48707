"""Views of a journal: sessions, with the reason why their next number waits; the numbers of a session; the actions of operators."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from datetime import datetime
from typing import Any

from seriatim.box.views import listing
from seriatim.box.views.listing import Listing
from seriatim.errors import NotFound
from seriatim.kernel.regions.claims import EntryState, SessionState
from seriatim.kernel.values.time import maybe_moment_of, moment_of
from seriatim.pipeline.text.command import command
from seriatim.regions.journal.statements import JournalStatements
from seriatim.regions.journal.values import QueueRules

#: How many ids of messages are listed that no region has.
_MOST_IDS = 20
_SHOWN_IDS = 3


@dataclass(frozen=True, slots=True)
class SessionView:
    """A session of two regions.

    Args:
        name: the name of the regions.
        queue: the queue.
        session: the session.
        state: ``idle``, ``working`` or ``suspended``.
        done_through: all numbers up to it are over.
        sent_through: the highest number that the journal knows.
        next_number: the number that comes next.
        message_id: the id of its message, if the journal knows it.
        waits_for: why it stands, for people; None: it doesn't, as far as the journal knows.
        region: the region that works on it.
        lease_until: when the lease of that region ends.
        attempts: how often its next message has failed.
        fault: the last error of its next message.
        version: of its newest claim.
        take_overs: how often a region took it over from one that said nothing any more.
        conflicts: how often a region had another message under a number.
        hole_since: since when a region waits for its next number without having it.
        hole_through: the last of the numbers, from the next one on, that no region has, as far as they have told.
        missing_ids: the ids of their messages, as far as the journal knows them; at most 20.
        commands: the commands that let it go on, best first.
        used_at: when it was used last.
    """

    name: str
    queue: str
    session: str
    state: str
    done_through: int
    sent_through: int
    next_number: int
    message_id: str | None
    waits_for: str | None
    region: str | None
    lease_until: datetime | None
    attempts: int
    fault: str | None
    version: int
    take_overs: int
    conflicts: int
    hole_since: datetime | None
    hole_through: int | None
    missing_ids: list[str]
    commands: list[str]
    used_at: datetime


@dataclass(frozen=True, slots=True)
class EntryView:
    """The journal's entry of a number.

    Args:
        first_number: the first of the numbers, if they were skipped together; else the same as `number`.
        number: the number.
        state: ``known``, ``reserved``, ``working``, ``pending``, ``completed``, ``failed``, ``skipped`` or ``void``.
        message_id: the id of its message.
        attempts: how often it has failed.
        due_at: the next attempt, or the end of a reservation.
        fault: the last error.
        changed_at: when this was noted.
    """

    first_number: int
    number: int
    state: str
    message_id: str | None
    attempts: int
    due_at: datetime | None
    fault: str | None
    changed_at: datetime


@dataclass(frozen=True, slots=True)
class LogEntry:
    """An action of an operator.

    Args:
        at: when.
        actor: who.
        action: what.
        name: the name of the regions.
        queue: the queue; None: all.
        session: the session; None: all.
        reason: why.
        detail: the result.
    """

    at: datetime
    actor: str
    action: str
    name: str
    queue: str | None
    session: str | None
    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class SessionCounts:
    """The sessions of two regions, in numbers.

    Args:
        idle: how many are neither worked on nor suspended.
        working: how many are worked on under a claim.
        suspended: how many stand until an operator acts.
        take_overs: how often a region took one over from one that said nothing any more.
        conflicts: how often a region had another message under a number.
    """

    idle: int
    working: int
    suspended: int
    take_overs: int
    conflicts: int


@dataclass(frozen=True, slots=True)
class RegionView:
    """The journal's view of a region.

    Args:
        region: its name.
        incarnation: of its box.
        outbox_since: since when nothing older is in its outbox.
        queue_since: since when nothing older can come into its queues.
        reported_at: when it has reported.
    """

    region: str
    incarnation: int
    outbox_since: datetime | None
    queue_since: datetime | None
    reported_at: datetime | None


@dataclass(frozen=True, slots=True)
class SessionFilter(Listing):
    _: KW_ONLY
    name: str | None = listing.text("sessions of these regions")
    queue: str | None = listing.text("sessions of this queue")
    session: str | None = listing.given("Only the session with this key.")
    stands: bool = listing.flag("sessions that wait for something that isn't at work", name="standing")
    not_idle: bool = listing.flag("sessions that are worked on or suspended", name="busy")
    limit: int = listing.limit("sessions")


@dataclass(frozen=True, slots=True)
class JournalLogFilter(Listing):
    _: KW_ONLY
    name: str | None = listing.text("actions on these regions")
    queue: str | None = listing.text("actions on sessions of this queue")
    session: str | None = listing.given("Only actions on this session.")
    limit: int = listing.limit("actions")


def sessions(statements: JournalStatements, chosen: SessionFilter) -> list[SessionView]:
    return [_session(row) for row in statements.rows("list_sessions", **chosen.parameters(), most_ids=_MOST_IDS)]


def known_sessions(
    statements: JournalStatements, name: str, after: tuple[str, str] = ("", ""), *, limit: int = 10_000
) -> list[tuple[str, str, int, int]]:
    """Return queue, session, highest number and through which number all is over, of the sessions after one, by their keys."""
    rows = statements.rows("known_sessions", name=name, queue=after[0], session=after[1], most=limit)
    return [(row.queue, row.session, max(row.sent_through, row.done_through), row.done_through) for row in rows]


def entries(statements: JournalStatements, name: str, queue: str, session: str, *, limit: int = 100) -> list[EntryView]:
    """Return the entries of the newest numbers of a session, the highest first."""
    (session_view,) = sessions(statements, SessionFilter(name=name, queue=queue, session=session)) or (None,)
    rows = statements.rows("list_entries", name=name, queue=queue, session=session, most=limit)
    return [
        EntryView(
            row.first_number, row.number, _state_of(row, session_view), row.message_id, row.attempts, maybe_moment_of(row.due_at),
            row.fault, moment_of(row.changed_at),
        )
        for row in rows
    ]  # fmt: skip


def log(statements: JournalStatements, chosen: JournalLogFilter) -> list[LogEntry]:
    """Return the actions of operators, the latest first."""
    return [
        LogEntry(moment_of(row.at), row.actor, row.action, row.name, row.queue, row.session, row.reason, row.detail)
        for row in statements.rows("list_log", **chosen.parameters())
    ]


def regions(statements: JournalStatements, name: str) -> list[RegionView]:
    return [
        RegionView(
            row.region, row.incarnation, *map(maybe_moment_of, (row.outbox_since, row.queue_since, row.reported_at))
        )
        for row in statements.rows("read_regions", name=name)
    ]


def counts(statements: JournalStatements, name: str) -> SessionCounts:
    return SessionCounts(*statements.rows("count_sessions", name=name)[0])


def rules(statements: JournalStatements, name: str, queue: str) -> QueueRules:
    row = statements.maybe("read_queue", name=name, queue=queue)
    if row is None:
        raise NotFound(
            f"the journal knows no queue {queue!r} of the regions {name!r}", remedy="define it first: Regions.define(…)"
        )
    return QueueRules(
        row.start, row.increment, row.attempts, "continue" if row.goes_on else "suspend",
        row.retry_after / 1_000_000, row.hole_timeout / 1_000_000 or None,
    )  # fmt: skip


def _session(row: Any) -> SessionView:
    return SessionView(
        row.name, row.queue, row.session, SessionState(row.state).name.lower(), row.done_through, row.sent_through,
        row.next_number, row.message_id, _waits_for(row), row.region, maybe_moment_of(row.lease_until), row.attempts or 0,
        row.fault, row.version, row.take_overs, row.conflicts, maybe_moment_of(row.hole_since), row.hole_through,
        row.missing_ids or [], _commands(row), moment_of(row.used_at),
    )  # fmt: skip


def _waits_for(row: Any) -> str | None:
    number, due = row.next_number, (row.due_at or 0) > row.now
    if row.state == SessionState.WORKING and row.lease_until > row.now:
        return None
    if row.state == SessionState.WORKING and row.hole_since is None:
        return "the lease is over: any region takes it over"
    if row.state == SessionState.SUSPENDED:
        failed = row.entry_state == EntryState.FAILED
        return f"message {number} has failed: retry or skip" if failed else "an operator has suspended it: resume"
    if row.entry_state == EntryState.RESERVED:
        return f"a sender that has reserved {number}"
    if row.entry_state == EntryState.PENDING and due:
        return f"the next attempt of {number}"
    return None if row.hole_since is None else _of_hole(row)


def _of_hole(row: Any) -> str:
    """The reason why a session waits whose next numbers no region has, by their reports."""
    first, last, ids = row.next_number, row.hole_through, row.missing_ids or []
    numbers, were = (f"message {first}", "was") if first == last else (f"messages {first} to {last}", "were")
    if row.sent_through >= first:
        known = f" ({', '.join([*ids[:_SHOWN_IDS], *(['…'] if len(ids) > _SHOWN_IDS else [])])})" if ids else ""
        return f"{numbers}{known}, which {were} sent, and which no region has: is one away?"
    skipped = "skipped when the time has run out" if row.hole_timeout else "skip what was never sent"
    return f"{numbers}, which no region has: {skipped}"


def _commands(row: Any) -> list[str]:
    """Return the commands that let a session continue."""
    rests = row.state == SessionState.IDLE or (row.state == SessionState.WORKING and row.lease_until <= row.now)
    verbs: tuple[str, ...] = ()
    if row.state == SessionState.SUSPENDED:
        verbs = ("retry", "skip") if row.entry_state == EntryState.FAILED else ("resume",)
    elif rests and row.hole_since is not None and row.entry_state != EntryState.RESERVED:
        verbs = ("skip",)
    through = row.hole_through if row.state != SessionState.SUSPENDED else None
    return [command("journal", verb, of=row.session, queue=row.queue, name=row.name, through=through) for verb in verbs]


def _state_of(row: Any, session: SessionView | None) -> str:
    state = EntryState(row.state)
    if state not in (EntryState.KNOWN, EntryState.PENDING):
        return state.name.lower()
    if row.is_over:
        return "completed"
    is_next = session is not None and session.next_number == row.number and session.state == "working"
    return "working" if is_next else state.name.lower()
