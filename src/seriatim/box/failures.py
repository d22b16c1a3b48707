"""Failures are messages too, for whoever asks: published in the transaction that writes down what went wrong.

Owns what is told of what handlers failed at, of holes that timed out, dead letters and unrouted messages. Where nobody
asks nothing is looked up. That a failure can't be published is logged, and undoes nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import psycopg
from psycopg.rows import tuple_row

from seriatim.box.access import Access
from seriatim.box.arrays import written
from seriatim.box.definitions import BoxQueue
from seriatim.box.deliver import Locked, Turns
from seriatim.box.received import context_of
from seriatim.box.statements import statement
from seriatim.errors import SeriatimError
from seriatim.kernel.outcome import Disposition, EventKind, Events
from seriatim.kernel.states import Action
from seriatim.pipeline.failure import FAILURE, Failed, failure_of
from seriatim.pipeline.message import Message

if TYPE_CHECKING:
    from seriatim.box.actions import Operation
    from seriatim.box.resequence import Judged

__all__ = ["judge_and_tell", "tell", "tell_acted", "tell_fault", "tell_judged", "tell_unrouted", "tell_unwanted"]

_LOG = logging.getLogger("seriatim.worker")
_HOLES = (EventKind.TIMED_OUT, EventKind.HOLE_SKIPPED)
_CLASSES = {EventKind.TIMED_OUT: "HoleTimedOut", EventKind.HOLE_SKIPPED: "HoleSkipped"}
_NOBODY = "no subscription wants it"


def tell(access: Access, connection: psycopg.Connection, failed: Sequence[tuple[Message, Failed]]) -> None:
    """Publish failures, so far as somebody asks for them; a failure of a failure is only logged.

    Args:
        access: the box.
        connection: in whose transaction.
        failed: each message, without its body, and what became of it.
    """
    from seriatim.box.session import Session  # noqa: PLC0415 -- which receives, and so tells what has timed out

    for message, what in failed:
        if message.type == FAILURE:
            _LOG.error("a failure of a failure isn't published: %s: %s", what.error_class, what.error)
    failures = [failure_of(message, what) for message, what in failed if message.type != FAILURE]
    definitions = access.known.definitions
    if (declared := definitions.types.get(FAILURE)) is not None:  # then it has no other properties
        known = {*declared.types(), "correlation_id", "parent_id"}
        failures = [
            replace(one, context={name: value for name, value in one.context.items() if name in known})
            for one in failures
        ]
    try:
        wanted = set(definitions.router.route(failures).entries.places) if failures else ()
        if wanted:
            with connection.transaction():
                Session(access, connection, own=False).publish([failures[at] for at in sorted(wanted)], wait=0)
    except SeriatimError as error:
        _LOG.error("a failure couldn't be published: %s", error)


def tell_fault(access: Access, connection: psycopg.Connection, queue: BoxQueue, entry_id: int, what: Failed) -> None:
    """Of a handler's failure at a message of which only its entry is known; after its attempt was counted."""
    if _asked(access, connection):
        tell(access, connection, [(one, replace(what, ordinal=told.ordinal, attempts=told.attempts))
                                  for one, told in _messages(access, connection, queue, [entry_id])])  # fmt: skip


def tell_judged(
    access: Access, connection: psycopg.Connection, queue: BoxQueue, keys: Sequence[str], judged: Judged
) -> None:
    """Of what a turn found: holes whose time is over, and what became dead. Does nothing where there is nothing of it.

    Args:
        access: the box.
        connection: in whose transaction.
        queue: whose groups.
        keys: the groups of the turn.
        judged: what it decided; that is written.
    """
    changes = judged.changes
    if not len(judged.events) and not changes["aside_ids"]:
        return
    dead = [
        entry_id
        for entry_id, disposition in zip(changes["aside_ids"], changes["aside_dispositions"], strict=True)
        if disposition == Disposition.DEAD.word
    ]
    holes = judged.events.take(np.isin(judged.events.kind, _HOLES))
    if (dead or len(holes)) and _asked(access, connection):
        failed = _of_holes(access, connection, queue, keys, holes) + _of_dead(access, connection, queue, dead)
        tell(access, connection, failed)


def judge_and_tell(access: Access, connection: psycopg.Connection, queue: BoxQueue, locked: Locked) -> None:
    """Judge what locked groups have, hand nothing out, and tell of what went wrong."""
    turns = Turns(connection, access.schema)
    for one in locked.by_policy(queue) if locked.keys else ():
        tell_judged(access, connection, queue, one.keys, turns.judge(queue, one, 0))


def tell_acted(access: Access, connection: psycopg.Connection, operation: Operation) -> None:
    """Of what an operator's action set aside for good, and of holes that had timed out before it."""
    passed_over = operation.action in (Action.SKIP_HOLE, Action.RESET)
    kinds = [kind for kind in _HOLES if not (passed_over and kind is EventKind.HOLE_SKIPPED)]
    found = [
        (kind, one.first, one.last)
        for one in operation.events
        for kind in kinds
        if one.kind == kind.word and one.first is not None and one.last is not None
    ]
    if not (found or operation.set_aside) or not _asked(access, connection):
        return
    queue = access.known.definitions.queue(operation.queue)
    with connection.cursor(row_factory=tuple_row) as cursor:
        named = {"queue_id": queue.queue_id, "group_key": operation.group}
        dead = [entry_id for (entry_id,) in cursor.execute(statement("dead_now", access.schema), named)]
    none = np.zeros(len(found), np.int64)
    columns = np.array(found, np.int64).reshape(-1, 3).T
    holes = Events(columns[0], none, columns[1], columns[2], none)
    failed = _of_holes(access, connection, queue, [operation.group], holes)
    tell(access, connection, failed + _of_dead(access, connection, queue, dead))


def tell_unrouted(access: Access, connection: psycopg.Connection, messages: Sequence[Message]) -> None:
    """Of messages that were published now, in the transaction of the connection: those that nobody wanted."""
    if not _asked(access, connection):
        return
    by_id = {one.message_id: one for one in messages if one.type != FAILURE}
    with connection.cursor(row_factory=tuple_row) as cursor:
        parameters = written({"message_ids": list(by_id)})
        problems: dict[str, str | None] = dict(
            cursor.execute(statement("unrouted_now", access.schema), parameters).fetchall()
        )
    tell_unwanted(access, connection, [by_id[one] for one in by_id if one in problems], problems)


def tell_unwanted(
    access: Access, connection: psycopg.Connection, messages: Sequence[Message], problems: Mapping[str, str | None]
) -> None:
    """Of messages that nobody wanted, with what was wrong with them, by their ids."""
    if not messages or not _asked(access, connection):
        return
    told = [(one, _unrouted(problems.get(one.message_id) or _NOBODY)) for one in messages if one.type != FAILURE]
    tell(access, connection, told)


def _asked(access: Access, connection: psycopg.Connection) -> bool:
    """Whether anybody asks for failures; where the process knows no definitions yet, they are read."""
    known = access.known
    definitions = known.definitions if known.definitions.version >= 0 else known.read(connection)
    return definitions.router.wants_failures


def _unrouted(why: str) -> Failed:
    return Failed(None, None, kind="unrouted", error_class="Unrouted", error=why, attempts=0)


def _messages(
    access: Access, connection: psycopg.Connection, queue: BoxQueue, entry_ids: Sequence[int]
) -> list[tuple[Message, Failed]]:
    """Messages by their entries, as they are now; what is told of them is that of a dead letter."""
    parameters = written({"queue_id": queue.queue_id, "entry_ids": list(entry_ids)})
    with connection.cursor(row_factory=tuple_row) as cursor:
        rows = cursor.execute(statement("failed_messages", access.schema), parameters).fetchall()
    return [
        (
            Message(type=kind, body=b"", message_id=name, context=context_of(context, types)),
            Failed(
                queue.declared.name, group or None, kind="dead", error_class="DeadLetter", error=reason,
                attempts=attempts, ordinal=ordinal, dead_letter=True,
            ),
        )
        for group, name, kind, context, types, ordinal, attempts, reason in rows
    ]  # fmt: skip


def _of_dead(
    access: Access, connection: psycopg.Connection, queue: BoxQueue, entry_ids: Sequence[int]
) -> list[tuple[Message, Failed]]:
    return _messages(access, connection, queue, entry_ids) if entry_ids else []


def _of_holes(
    access: Access, connection: psycopg.Connection, queue: BoxQueue, keys: Sequence[str], holes: Events
) -> list[tuple[Message, Failed]]:
    """What is told of holes: by the message that waits, or has waited, behind each."""
    if not len(holes):
        return []
    groups, lasts = [keys[at] for at in holes.group.tolist()], holes.last.tolist()
    parameters = written({"queue_id": queue.queue_id, "group_keys": groups, "lasts": lasts})
    with connection.cursor(row_factory=tuple_row) as cursor:
        (behind,) = cursor.execute(statement("behind_holes", access.schema), parameters).fetchall()[0]
    told = []
    for group, kind, first, last, entry_id in zip(
        groups, holes.kind.tolist(), holes.first.tolist(), lasts, behind, strict=True
    ):
        missing = f"number {first} is missing" if first == last else f"the numbers {first} to {last} are missing"
        what = Failed(
            queue.declared.name, group, kind="hole", error_class=_CLASSES[EventKind(kind)], error=missing, attempts=0
        )
        found = _messages(access, connection, queue, [entry_id]) if entry_id is not None else []
        told += [(message, replace(what, ordinal=one.ordinal, attempts=one.attempts)) for message, one in found]
    return told
