"""The journal forgets: sessions that are complete, and the ids of numbers that have been over for long."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from seriatim.errors import UsageError
from seriatim.kernel.values.time import NEVER, micros
from seriatim.regions.journal.operators import write_log
from seriatim.regions.journal.statements import JournalStatements

#: The most sessions that are forgotten in one transaction.
PORTION = 1_000
_REGIONS = 2


@dataclass(frozen=True, slots=True)
class Forgotten:
    """The numbers of forgotten sessions.

    Args:
        sessions: how many sessions.
        numbers: of how many numbers the ids.
    """

    sessions: int
    numbers: int


def others_outbox(statements: JournalStatements, name: str, region: str) -> int | None:
    """Return since when the other outbox has nothing older, by its report; a region reads it before its own queues."""
    rows = [row for row in statements.rows("read_regions", name=name) if row.region != region]
    return rows[0].outbox_since if len(rows) == 1 else None


def report(
    statements: JournalStatements, name: str, region: str, incarnation: int, *, outbox_age: float, queue_age: float,
    others: int | None,
) -> bool:  # fmt: skip
    """Note how old the oldest message is that a region still has."""
    done = statements.do(
        "report", name=name, region=region, incarnation=incarnation, outbox_age=micros(outbox_age), queue_age=micros(queue_age),
        others=NEVER if others is None else others,
    )  # fmt: skip
    return done == 1


def purge(
    statements: JournalStatements, name: str, forget_after: int, *, without: str | None = None, after: tuple[str, str],
    most: int,
) -> tuple[Forgotten, tuple[str, str]]:  # fmt: skip
    """Forget at most a number of sessions, and at most a number of ids of numbers that are over."""
    rows = statements.rows("read_regions", name=name)
    if without is not None and without not in (row.region for row in rows):
        known = ", ".join(row.region for row in rows) or "none"
        raise UsageError(f"no region {without!r} has reported (there are: {known})", remedy="name one of them")
    marks = [NEVER if row.queue_since is None else row.queue_since for row in rows if row.region != without]
    least = _REGIONS - (without is not None)
    sessions = []
    if len(marks) >= least and marks:
        sessions = statements.rows(
            "forget_sessions", name=name, forget_after=forget_after, watermark=min(marks), most=most,
            after_queue=after[0], after_session=after[1],
        )  # fmt: skip
    if sessions:
        after = (sessions[-1].queue, sessions[-1].session)
        newest: dict[str, int] = {}
        for session in sessions:
            newest[session.queue] = max(session.used_at, newest.get(session.queue, session.used_at))
        queues = sorted(newest)
        statements.do(
            "forget_entries",
            name=name,
            queues=[session.queue for session in sessions],
            sessions=[session.session for session in sessions],
        )
        statements.do("note_forgotten", name=name, queues=queues, used=[newest[queue] for queue in queues])
        statements.do("raise_floor", floor=max(session.version for session in sessions))
    numbers = statements.do("forget_ids", name=name, forget_after=forget_after, most=most)
    return Forgotten(len(sessions), numbers), after


def log_purge(statements: JournalStatements, name: str, without: str, *, actor: str, reason: str, detail: str) -> None:
    """Note that an operator has purged without the report of a region."""
    write_log(
        statements, name, None, None, actor=actor, action=f"purge without {without}", reason=reason, detail=detail
    )


def over_before(statements: JournalStatements, name: str) -> dict[str, str]:
    """For each queue that has one, the key before which all its sessions are over."""
    return {row.queue: row.over_before for row in statements.rows("read_over", name=name)}


def raise_over(statements: JournalStatements, name: str, befores: Mapping[str, str]) -> None:
    """Take over the keys before which all sessions are over, where they are higher."""
    for queue, before in befores.items():
        statements.do("set_over", name=name, queue=queue, before=before)


def end_before(statements: JournalStatements, name: str, queue: str, before: str, *, actor: str, reason: str) -> int:
    """Say that all sessions below a key are over, unless the journal knows something of them that isn't: of how many sessions."""
    left: int = statements.rows("count_left", name=name, queue=queue, before=before)[0].sessions
    if not left and statements.do("set_over", name=name, queue=queue, before=before):
        detail = f"all sessions before {before!r} are over, and are forgotten"
        write_log(statements, name, queue, None, actor=actor, action="forget", reason=reason, detail=detail)
    return left


def forget_over(statements: JournalStatements, name: str, queue: str, most: int) -> int:
    """Forget at most so many sessions below the key before which all are over; how many they were."""
    found = statements.rows("forget_over", name=name, queue=queue, most=most)
    if found:
        keys = {"queues": [one.queue for one in found], "sessions": [one.session for one in found]}
        statements.do("forget_entries", name=name, **keys)
    return len(found)
