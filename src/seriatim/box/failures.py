"""Failures are messages too, for whoever asks: published in the transaction that writes down what went wrong.

Owns what is told of what handlers failed at, of holes that timed out, of messages that are set aside as dead or invalid,
and of unrouted ones; how many there are makes no difference to how often the box is asked. Where nobody asks for failures
nothing is looked up. That a failure can't be published is logged, and undoes nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import psycopg
from psycopg.rows import tuple_row

from seriatim.box.access import Access
from seriatim.box.arrays import written
from seriatim.box.definitions import BoxQueue
from seriatim.box.dialog import dialog_of
from seriatim.box.received import context_of
from seriatim.box.statements import statement
from seriatim.box.turns import Locked, Turns
from seriatim.errors import SeriatimError
from seriatim.kernel.outcome import Disposition, EventKind, Events
from seriatim.kernel.states import Action
from seriatim.pipeline.types.failure_message import FAILURE, Failed, failure_of
from seriatim.pipeline.types.message import Message

if TYPE_CHECKING:
    from seriatim.box.actions import Operation
    from seriatim.box.resequence import Judged
    from seriatim.box.route import Routed

__all__ = [
    "dead",
    "judge_and_tell",
    "tell",
    "tell_acted",
    "tell_fault",
    "tell_gone",
    "tell_judged",
    "tell_kept_out",
    "tell_of",
    "tell_routed",
]

_LOG = logging.getLogger("seriatim.worker")
_HOLES = (EventKind.TIMED_OUT, EventKind.HOLE_SKIPPED)
_CLASSES = {EventKind.TIMED_OUT: "HoleTimedOut", EventKind.HOLE_SKIPPED: "HoleSkipped"}
_GONE = (Disposition.DEAD.word, Disposition.INVALID.word)
_NOBODY = "no subscription wants it"
#: Failures that are published together: as many as a pipeline's batch has messages may come at once.
_PORTION = 5_000


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
        known = {*declared.types(), "correlation_id", "location", "parent_id"}
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


def tell_fault(access: Access, connection: psycopg.Connection, entry_id: int, what: Failed) -> None:
    """Of a handler's failure at a message of which only its entry is known; after its attempt was counted."""
    if _asked(access, connection):
        found = _messages(access, connection, [entry_id])
        told = [(one, replace(what, ordinal=was.ordinal, attempts=was.attempts)) for one, was in found.values()]
        tell(access, connection, told)


def tell_judged(
    access: Access, connection: psycopg.Connection, queue: BoxQueue, keys: Sequence[str], judged: Judged
) -> None:
    """Of what a turn found: holes whose time is over, and what is dead or invalid. Does nothing where there is nothing of it.

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
    gone = [
        entry_id
        for entry_id, disposition in zip(changes["aside_ids"], changes["aside_dispositions"], strict=True)
        if disposition in _GONE
    ]
    holes = judged.events.take(np.isin(judged.events.kind, _HOLES))
    if (gone or len(holes)) and _asked(access, connection):
        failed = _of_holes(access, connection, queue, keys, holes) + _of_gone(access, connection, gone)
        tell(access, connection, failed)


def judge_and_tell(access: Access, connection: psycopg.Connection, queue: BoxQueue, locked: Locked) -> None:
    """Judge what locked groups have, hand nothing out, and tell of what went wrong."""
    turns = Turns(connection, access.schema)
    for one in locked.by_policy(queue) if locked.keys else ():
        tell_judged(access, connection, queue, one.keys, turns.judge(queue, one, 0))


def tell_acted(access: Access, connection: psycopg.Connection, operation: Operation) -> None:
    """Of what an operator's action, or the look before it, set aside for good, and of holes that had timed out before it."""
    if not _asked(access, connection):
        return
    passed_over = operation.action in (Action.SKIP_HOLE, Action.RESET)
    kinds = [kind for kind in _HOLES if not (passed_over and kind is EventKind.HOLE_SKIPPED)]
    found = [
        (kind, one.first, one.last)
        for one in operation.events
        for kind in kinds
        if one.kind == kind.word and one.first is not None and one.last is not None
    ]
    queue = access.known.definitions.queue(operation.queue)
    with connection.cursor(row_factory=tuple_row) as cursor:
        named = {"queue_id": queue.queue_id, "group_key": operation.group}
        gone = [entry_id for (entry_id,) in cursor.execute(statement("gone_now", access.schema), named)]
    none = np.zeros(len(found), np.int64)
    columns = np.array(found, np.int64).reshape(-1, 3).T
    holes = Events(columns[0], none, columns[1], columns[2], none)
    failed = _of_holes(access, connection, queue, [operation.group], holes)
    tell(access, connection, failed + _of_gone(access, connection, gone))


def tell_gone(access: Access, connection: psycopg.Connection, entry_ids: Sequence[int]) -> None:
    """Of messages that were set aside, by their entries; of those in queues that the role may not receive from it is logged
    how many they are.
    """
    if entry_ids and _asked(access, connection):
        tell(access, connection, _of_gone(access, connection, entry_ids))


def tell_of(access: Access, connection: psycopg.Connection, message: Message, what: Failed) -> None:
    """Of one message that is at hand, where anybody asks."""
    if _asked(access, connection):
        tell(access, connection, [(message, what)])


def dead(queue: str | None, group: str | None, why: str) -> Failed:
    """What is told of a message that was set aside for good."""
    return Failed(queue, group or None, kind="dead", error_class="DeadLetter", error=why, attempts=0, dead_letter=True)


def tell_kept_out(access: Access, connection: psycopg.Connection, message_ids: Sequence[str] | None = None) -> None:
    """Of what the transaction of the connection has published: what nobody wanted, and what a queue set aside as invalid.

    Args:
        access: the box.
        connection: in whose transaction.
        message_ids: only of these; None: of all.
    """
    if not _asked(access, connection):
        return
    queues = _names(access)
    parameters = {"message_ids": None if message_ids is None else list(message_ids)}
    # A batch of a pipeline may be large; what is published by a call is in memory already.
    of_server = "kept_out" if message_ids is None else ""
    with connection.cursor(of_server, row_factory=tuple_row) as cursor:
        cursor.execute(statement("kept_out", access.schema), parameters)
        while rows := cursor.fetchmany(_PORTION):
            tell(
                access,
                connection,
                [
                    (
                        _message(name, kind, context, types),
                        _unrouted(why) if queue_id is None else _invalid(queues.get(queue_id), group, why),
                    )
                    for queue_id, group, name, kind, context, types, why in rows
                ],
            )


def tell_routed(
    access: Access, connection: psycopg.Connection, messages: Sequence[Message], routed: Routed, *, again: bool = False
) -> None:
    """Of messages that were routed now, and are new to the box or to their queues.

    Args:
        access: the box.
        connection: in whose transaction.
        messages: as they were published.
        routed: where they go.
        again: they were unrouted before, and that was told then.
    """
    if not _asked(access, connection):
        return
    entries = routed.entries
    wanted = set(entries.places)
    unwanted = [] if again else [row for row in range(len(messages)) if row not in wanted]
    refused = [at for at, problem in enumerate(entries.problems) if problem is not None]
    if not (unwanted or refused):
        return
    queues, failed = _names(access), [(messages[row], _unrouted(routed.typed.problems[row])) for row in unwanted]
    failed += [
        (
            messages[entries.places[at]],
            _invalid(queues.get(entries.queue_ids[at]), entries.groups[at], entries.problems[at]),
        )
        for at in refused
    ]
    tell(access, connection, failed)


def _asked(access: Access, connection: psycopg.Connection) -> bool:
    """Whether anybody asks for failures; where the process knows no definitions yet, they are read."""
    known = access.known
    definitions = known.definitions if known.definitions.version >= 0 else known.read(connection)
    return definitions.router.wants_failures


def _names(access: Access) -> dict[int, str]:
    return {one.queue_id: name for name, one in access.known.definitions.queues.items()}


def _unrouted(why: str | None) -> Failed:
    return Failed(None, None, kind="unrouted", error_class="Unrouted", error=why or _NOBODY, attempts=0)


def _invalid(queue: str | None, group: str | None, why: str | None) -> Failed:
    return Failed(queue, group or None, kind="invalid", error_class="Invalid", error=why or "", attempts=0)


def _message(name: str, kind: str, written: str, types: dict[str, str] | None) -> Message:
    """A message without its body; what tells of its dialog is among its properties."""
    context = context_of(written, types)
    dialog = dialog_of(context, kind)
    return Message(type=kind, message_id=name, context=context | ({} if dialog is None else dialog.properties()))


def _messages(
    access: Access, connection: psycopg.Connection, entry_ids: Sequence[int]
) -> dict[int, tuple[Message, Failed]]:
    """Messages by their entries, as they are now, as far as the role may know them, with why they were set aside."""
    queues = _names(access)
    with connection.cursor(row_factory=tuple_row) as cursor:
        parameters = written({"entry_ids": list(entry_ids)})
        rows = cursor.execute(statement("failed_messages", access.schema), parameters).fetchall()
    return {
        entry_id: (
            _message(name, kind, context, types),
            replace(
                (_invalid if disposition == Disposition.INVALID.word else dead)(queues.get(queue_id), group, reason),
                attempts=attempts,
                ordinal=ordinal,
            ),
        )
        for entry_id, queue_id, group, name, kind, context, types, ordinal, attempts, disposition, reason in rows
    }


def _of_gone(access: Access, connection: psycopg.Connection, entry_ids: Sequence[int]) -> list[tuple[Message, Failed]]:
    if not entry_ids:
        return []
    found = _messages(access, connection, entry_ids)
    if (unknown := len(entry_ids) - len(found)) > 0:
        _LOG.error("failures aren't published of queues that the role may not receive from: %d", unknown)
    return list(found.values())


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
    found = _messages(access, connection, [one for one in behind if one is not None])
    told = []
    for group, kind, first, last, entry_id in zip(
        groups, holes.kind.tolist(), holes.first.tolist(), lasts, behind, strict=True
    ):
        missing = f"number {first} is missing" if first == last else f"the numbers {first} to {last} are missing"
        what = Failed(
            queue.declared.name, group, kind="hole", error_class=_CLASSES[EventKind(kind)], error=missing, attempts=0
        )
        if entry_id in found:
            message, was = found[entry_id]
            told.append((message, replace(what, ordinal=was.ordinal, attempts=was.attempts)))
    return told
