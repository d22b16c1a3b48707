"""An operator's actions on sessions of a journal. Each is written to its operator log, with actor and reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import uuid4

import numpy as np

from seriatim.errors import ActionRefused, NotFound, UsageError
from seriatim.kernel.regions import claims as rules
from seriatim.kernel.regions.claims import ALLOWED, Action, EntryState, SessionState
from seriatim.kernel.values.time import NEVER
from seriatim.regions.journal.locked import OVER, Entry, LockedSessions, Session, lock
from seriatim.regions.journal.statements import JournalStatements
from seriatim.regions.journal.values import KnownByBox

#: How many ids of skipped messages the operator log names.
_MOST_IDS = 20


@dataclass(frozen=True, slots=True)
class ActionResult:
    """The result of an action.

    Args:
        session: the session.
        action: the action.
        done_through: all numbers up to it are over now.
        state: the state of the session now.
        detail: a remark.
        skipped_from: the first number that was skipped; None: none was.
        skipped_through: the last one.
        message_ids: the ids of skipped messages, as far as the journal knew them.
    """

    session: str
    action: str
    done_through: int
    state: str
    detail: str
    skipped_from: int | None = None
    skipped_through: int | None = None
    message_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Recovery:
    """What a recovery did.

    Args:
        incarnation: the journal's, now.
        stopped: how many claims were ended, leases of pipelines included.
        raised: of how many sessions a box knew more to be over than the journal.
        asked: the regions whose boxes were asked.
    """

    incarnation: int
    stopped: int
    raised: int
    asked: tuple[str, ...] = ()


def act(
    statements: JournalStatements, name: str, queue: str, session: str, action: Action, *, actor: str, reason: str,
    through: int | None = None, missing: bool = False,
) -> ActionResult:  # fmt: skip
    """Do something with one session, and write it to the operator log."""
    locked = lock(statements, name, queue, [session])
    known = locked.sessions.get(session)
    if known is None:
        raise NotFound(
            f"the journal knows no session {session!r} of queue {queue!r}", remedy="seriatim journal list shows them"
        )
    locked.settle([known])
    _check(known, action, locked.now)
    first: int | None = None
    last: int | None = None
    ids: tuple[str, ...] = ()
    match action:
        case Action.SKIP:
            if missing:
                through = _missing_through(known)
            first, last, ids = _skip(locked, known, through)
            detail = _skipped(first, last, ids)
        case Action.RETRY:
            detail = _retry(locked, known)
        case Action.RELEASE:
            detail = f"the claim of region {known.region} is over"
            known.stop(SessionState.IDLE)
        case Action.SUSPEND:
            detail = "no region gets its messages"
            known.stop(SessionState.SUSPENDED)
        case Action.RESUME:
            detail = _resume(locked, known)
    locked.change(known)
    locked.write()
    verb = action.name.lower()
    write_log(statements, name, queue, session, actor=actor, action=verb, reason=reason, detail=detail)
    return ActionResult(
        session, verb, known.done_through, SessionState(known.state).name.lower(), detail, first, last, ids
    )


def begin_recovery(statements: JournalStatements, name: str, *, actor: str, reason: str) -> Recovery:
    """Begin a new incarnation, after the journal was restored or has lost something: all claims end."""
    incarnation = statements.rows("begin_incarnation")[0].incarnation
    stopped = statements.do("stop_claims") + statements.do("stop_pipelines")
    detail = f"incarnation {incarnation}, claims ended: {stopped}"
    write_log(statements, name, None, None, actor=actor, action="recover", reason=reason, detail=detail)
    return Recovery(incarnation, stopped, 0)


def raise_known(statements: JournalStatements, name: str, queue: str, known: Mapping[str, KnownByBox]) -> int:
    """Take over the boxes' knowledge of sessions; nothing is lowered. A claim of a number that is over ends."""
    locked = lock(statements, name, queue, known, opens=True, passes_over=True)
    sessions = [locked.sessions[key] for key in sorted(locked.sessions)]
    reported = [known[session.session] for session in sessions]
    ours = np.array([session.done_through for session in sessions], np.int64)
    overs = np.array([NEVER if numbers.over is None else numbers.over for numbers in reported], np.int64)
    raised = 0
    for session, report, done in zip(sessions, reported, rules.recovered(ours, overs, overs).tolist(), strict=True):
        sent = max(session.sent_through, report.through, done)
        if done > session.done_through:
            session.hole_since = None
            session.stop(SessionState.IDLE)  # the reason for its stop, or its claim, is over
            raised += 1
        elif sent == session.sent_through:
            continue
        session.done_through, session.sent_through, session.used_at = done, sent, locked.now
        locked.change(session)
    locked.settle(sessions)
    locked.write()
    return raised


def end_recovery(statements: JournalStatements, name: str, done: Recovery, *, actor: str, reason: str) -> None:
    """Note what a recovery did: its last step."""
    detail = f"incarnation {done.incarnation}, sessions raised: {done.raised}, boxes asked: {', '.join(done.asked) or 'none'}"
    write_log(statements, name, None, None, actor=actor, action="recovered", reason=reason, detail=detail)


def write_log(
    statements: JournalStatements, name: str, queue: str | None, session: str | None, *, actor: str, action: str, reason: str,
    detail: str,
) -> None:  # fmt: skip
    """Write to the operator log what an operator did beside the journal."""
    statements.do(
        "write_log", id=str(uuid4()), name=name, queue=queue, session=session, actor=actor, action=action,
        reason=reason, detail=detail,
    )  # fmt: skip


def _check(session: Session, action: Action, now: int) -> None:
    state = SessionState(session.state)
    if action == Action.SKIP and state == SessionState.WORKING and (session.lease_until or 0) <= now:
        return  # no worker has it any more
    if state in ALLOWED[action]:
        return
    allowed = ", ".join(action.name.lower() for action in Action if state in ALLOWED[action])
    raise _refused(session, f"cannot {action.name.lower()} a session that is {state.name.lower()} (allowed: {allowed})")


def _missing_through(session: Session) -> int:
    """The last of the numbers that no region has."""
    if session.hole_since is None or session.hole_through is None:
        remedy = "name the last number that is skipped: --through NUMBER"
        raise _refused(session, "no region has told that a number is missing", remedy)
    return session.hole_through


def _skip(locked: LockedSessions, session: Session, through: int | None) -> tuple[int, int, tuple[str, ...]]:
    """Skip the next number, or all through one; return the first and the last, and the known ids of their messages."""
    first = locked.next_number(session)
    last = first if through is None else through
    if last < first or (last - first) % locked.rules.increment:
        raise UsageError(
            f"cannot skip through {last}: the next number is {first}",
            where=f"session {session.session!r}",
            remedy=f"a number from {first} on, in steps of {locked.rules.increment}",
        )
    left = [entry for entry in locked.open_entries(session) if entry.number <= last and entry.state not in OVER]
    ids = tuple(entry.message_id for entry in left if entry.message_id is not None)
    for entry in left:
        if entry.number < last:
            locked.note(replace(entry, state=EntryState.SKIPPED, due_at=None))
    before = locked.entries.get(session.session, {}).get(last)
    if before is None:
        # The range ends here and begins after the last number that has an entry of its own.
        inside = [entry.number for entry in locked.open_entries(session) if entry.number < last]
        begins = max(inside, default=first - locked.rules.increment) + locked.rules.increment
        locked.note(Entry(session.session, last, begins, EntryState.SKIPPED))
    elif before.state not in OVER:
        locked.note(replace(before, state=EntryState.SKIPPED, due_at=None))
    session.done_through, session.sent_through = last, max(last, session.sent_through)
    session.stop(SessionState.IDLE)
    session.hole_since, session.used_at = None, locked.now
    locked.settle([session])
    return first, last, ids


def _skipped(first: int, last: int, ids: Sequence[str]) -> str:
    """The skipped numbers in words, with the ids that the journal knew."""
    more = "" if len(ids) <= _MOST_IDS else f", and {len(ids) - _MOST_IDS} more"
    known = f"; known: {', '.join(ids[:_MOST_IDS])}{more}" if ids else ""
    return f"skipped {first}{known}" if first == last else f"skipped {first} to {last}{known}"


def _retry(locked: LockedSessions, session: Session) -> str:
    number = locked.next_number(session)
    entry = locked.entries.get(session.session, {}).get(number)
    if entry is None or entry.state not in (EntryState.FAILED, EntryState.PENDING):
        remedy = "resume a session that was suspended; skip a number that is missing"
        raise _refused(session, f"cannot retry {number}: it has not failed", remedy)
    locked.note(replace(entry, state=EntryState.PENDING, due_at=None, attempts=0))
    session.stop(SessionState.IDLE)
    return f"{number} is tried again at once"


def _resume(locked: LockedSessions, session: Session) -> str:
    number = locked.next_number(session)
    entry = locked.entries.get(session.session, {}).get(number)
    if entry is not None and entry.state == EntryState.FAILED:
        raise _refused(session, f"cannot resume the session: its message {number} has failed", "retry it, or skip it")
    session.stop(SessionState.IDLE)
    return "its messages are handed out again"


def _refused(session: Session, what: str, remedy: str = "") -> ActionRefused:
    return ActionRefused(what, where=f"session {session.session!r}", remedy=remedy)
