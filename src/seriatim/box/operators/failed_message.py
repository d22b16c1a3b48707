"""Messages that stopped: retry them, edit their bodies, or make them dead letters.

A failed message stops its group, whose lock the caller holds; the kernel changes the group's state. In an `Unordered` queue a message stops
itself alone: it is postponed, waits for an attempt or, with a gate, is faulted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from seriatim.box.connection.access import Transaction
from seriatim.box.definitions.definition import BoxQueue, Definitions
from seriatim.box.definitions.route import router_of
from seriatim.box.messages.received import context_of, dialog_of, stored_message
from seriatim.box.publishing.batch import distinct
from seriatim.errors import UsageError
from seriatim.kernel.values.outcome import REASONS, Reason
from seriatim.pipeline.types.message import Message


@dataclass(frozen=True, slots=True)
class FailedMessage:
    """What stops a group: its first message, without the body, and all entries. `waits`: handed out again at a time ahead."""

    message: Message
    entry_ids: list[int]
    waits: bool
    postponed: int | None = None


@dataclass(frozen=True, slots=True)
class Stopping:
    """What stops a group: its entries, whether the first of them waits for the time of its retry, and the id of its message."""

    entry_ids: list[int]
    waits: bool
    message_id: str


@dataclass(frozen=True, slots=True)
class EditedEntry:
    """An edit of an entry: its new properties as the box stores them, and its new body; None: it stays as it is."""

    entry_id: int
    context: str | None
    property_types: str | None
    body: bytes | None


def failed(transaction: Transaction, queue: BoxQueue, group: str) -> FailedMessage | None:
    """The message that stops a faulted group, or that the group retries next; None if the group has released nothing."""
    rows = transaction.rows("failed", group_key=group, **_bounds(queue))
    if not rows:
        return None
    first = rows[0]
    context = context_of(first.context or "{}", first.property_types)  # without the right to see it, none
    dialog_of(context, first.type)  # which is no property
    message = Message(
        message_id=first.message_id, type=first.type, content_type=first.content_type, context=context, body=b""
    )
    return FailedMessage(message, [row.entry_id for row in rows], first.waits, first.postponed if first.waits else None)


def _bounds(queue: BoxQueue) -> dict[str, Any]:
    return {"queue_id": queue.queue_id, "at_most": queue.at_most(1), "begins_again": queue.begins_again}


def failed_of(transaction: Transaction, queue: BoxQueue, groups: Sequence[str]) -> dict[str, Stopping]:
    """The messages that stop each of some groups, as `failed` finds them, in one statement; without groups that have none."""
    found: dict[str, Stopping] = {}
    for row in transaction.rows("failed_of_groups", group_keys=list(groups), **_bounds(queue)):
        found.setdefault(row.group, Stopping([], row.waits, row.message_id)).entry_ids.append(row.entry_id)
    return found


def see_now(transaction: Transaction, queue: BoxQueue, entry_ids: Sequence[int]) -> None:
    transaction.do("see_now", of_queue=queue.queue_id, of_entries=list(entry_ids))


def write_edits(transaction: Transaction, queue: BoxQueue, edited: Sequence[EditedEntry], actor: str) -> None:
    """Write new bodies and properties of messages beside what was published, in one statement."""
    bodies = [(one.entry_id, one.body) for one in edited if one.body is not None]
    parameters = {
        "of_queue": queue.queue_id,
        "of_entries": [one.entry_id for one in edited],
        "of_contexts": [one.context for one in edited],
        "of_property_types": [one.property_types for one in edited],
        "body_entries": [entry_id for entry_id, _ in bodies],
        "of_bodies": [body for _, body in bodies] or None,
        "its_actor": actor,
    }
    transaction.do("edit_entries", **parameters)


def edit(
    transaction: Transaction, definitions: Definitions, queue: BoxQueue, what: FailedMessage, body: bytes, actor: str
) -> None:
    """Replace the body of the failed message. Its properties stay as they are."""
    where = f"message {what.message.message_id!r}"
    transaction.check_sight("see_bodies", queue.queue_id)
    if len(what.entry_ids) > 1:
        raise UsageError(
            "a set of several messages failed, so it isn't known which to edit",
            where=where,
            remedy="export its messages, and retry with --edits",
        )
    edited = replace(what.message, body=body)
    distinct([edited])  # a body that can be one at all
    (problem,) = router_of(definitions).typed([edited], carried=True).problems
    if problem is not None:
        raise UsageError(f"the body is not what type {edited.type!r} says: {problem}", where=where)
    write_edits(transaction, queue, [EditedEntry(what.entry_ids[0], None, None, body)], actor)


def set_dead(transaction: Transaction, queue: BoxQueue, group: str, what: FailedMessage) -> None:
    parameters = {
        "of_queue": queue.queue_id, "of_group": group, "of_entries": what.entry_ids,
        "why": REASONS[Reason.SKIPPED_BY_OPERATOR],
    }  # fmt: skip
    transaction.do("set_dead", **parameters)


def set_dead_each(transaction: Transaction, queue: BoxQueue, stopping: Mapping[str, Stopping]) -> None:
    """Make the messages that stop some groups, by group, dead letters, in one statement."""
    pairs = [(group, entry_id) for group, one in stopping.items() for entry_id in one.entry_ids]
    parameters = {
        "of_queue": queue.queue_id, "of_groups": [group for group, _ in pairs], "of_entries": [one for _, one in pairs],
        "why": REASONS[Reason.SKIPPED_BY_OPERATOR],
    }  # fmt: skip
    transaction.do("set_dead_each", **parameters)


@dataclass(frozen=True, slots=True)
class StoppedMessage:
    entry_id: int
    group: str
    message_id: str
    #: Whether it failed for good; otherwise it is postponed, or waits for its next attempt.
    is_faulted: bool
    type: str
    content_type: str | None
    #: Its properties as the box stores them; None for a role that doesn't see them.
    context: str | None
    property_types: Mapping[str, str] | None

    def failed(self) -> FailedMessage:
        return FailedMessage(stored_message(self, body=b""), [self.entry_id], not self.is_faulted)


def stopped_messages(
    transaction: Transaction,
    queue: BoxQueue,
    *,
    message_ids: Sequence[str] | None = None,
    entry_ids: Sequence[int] | None = None,
) -> list[StoppedMessage]:
    """The messages of a queue that stop themselves alone: those with these ids, or with these entries; or all that are faulted."""
    parameters = {
        "queue_id": queue.queue_id,
        "message_ids": None if message_ids is None else list(message_ids),
        "entry_ids": None if entry_ids is None else list(entry_ids),
    }
    return transaction.rows("messages_to_retry", StoppedMessage, **parameters)


def retry_now(transaction: Transaction, queue: BoxQueue, entry_ids: Sequence[int]) -> frozenset[int]:
    """Allow stopped messages to be handed out at once; returns those of which that was still true."""
    done = transaction.value("retry_messages", of_queue=queue.queue_id, of_entries=list(entry_ids))
    if done:
        transaction.do("call_all_waiters", of_queues=[queue.queue_id])
    return frozenset(done)
