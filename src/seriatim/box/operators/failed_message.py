"""The failed message of a faulted group: retry it, edit its body, or make it a dead letter.

The caller holds the group's lock. The kernel changes the group's state.
"""

from __future__ import annotations

from dataclasses import dataclass

from seriatim.box.connection.access import Transaction
from seriatim.box.definitions.definition import BoxQueue, Definitions
from seriatim.box.messages.received import context_of
from seriatim.box.publishing.batch import distinct
from seriatim.errors import UsageError
from seriatim.kernel.outcome import REASONS, Reason
from seriatim.pipeline.types.message import Message
from seriatim.pipeline.types.typed_message import MessageTypes

__all__ = ["FailedMessage", "edit", "failed", "see_now", "set_dead"]


@dataclass(frozen=True, slots=True)
class FailedMessage:
    """The message or set that stops a group: its first message, all its entries, and whether it waits for a retry.

    `message`: without its body. `waits`: it failed, and the time of its retry is in the future.
    """

    message: Message
    entry_ids: list[int]
    waits: bool


def failed(transaction: Transaction, queue: BoxQueue, group: str) -> FailedMessage | None:
    """The message that stops a faulted group, or that the group retries next; None if the group has released nothing."""
    parameters = {"queue_id": queue.queue_id, "group_key": group, "at_most": queue.at_most(1)}
    rows = transaction.rows("failed", **parameters)
    if not rows:
        return None
    first = rows[0]
    message = Message(
        message_id=first.message_id,
        type=first.type,
        content_type=first.content_type,
        context=context_of(first.context or "{}", first.property_types),  # without the right to see it, none
        body=b"",
    )
    return FailedMessage(message, [row.entry_id for row in rows], first.waits)


def see_now(transaction: Transaction, queue: BoxQueue, what: FailedMessage) -> None:
    """Allow the message to be handed out at once."""
    transaction.do("see_now", of_queue=queue.queue_id, of_entries=what.entry_ids)


def edit(
    transaction: Transaction, definitions: Definitions, queue: BoxQueue, what: FailedMessage, body: bytes, actor: str
) -> None:
    """Replace the body of the failed message. Its properties stay as they are.

    Raises:
        UsageError: a set failed, or the body is too large, or doesn't fit the message's type.
    """
    where = f"message {what.message.message_id!r}"
    transaction.check_sight("see_bodies", queue.queue_id)
    if len(what.entry_ids) > 1:
        raise UsageError(
            "a set of several messages failed, so it isn't known which to edit", where=where, remedy="retry it as it is"
        )
    edited = Message(
        message_id=what.message.message_id,
        type=what.message.type,
        content_type=what.message.content_type,
        context=what.message.context,
        body=body,
    )
    distinct([edited])  # a body that can be one at all
    (problem,) = MessageTypes(definitions.types.values()).typed([edited]).problems
    if problem is not None:
        raise UsageError(f"the body is not what type {edited.type!r} says: {problem}", where=where)
    parameters = {"of_queue": queue.queue_id, "of_entry": what.entry_ids[0], "of_body": body, "its_actor": actor}
    transaction.do("edit_body", **parameters)


def set_dead(transaction: Transaction, queue: BoxQueue, group: str, what: FailedMessage) -> None:
    """Make the message a dead letter."""
    parameters = {
        "of_queue": queue.queue_id, "of_group": group, "of_entries": what.entry_ids,
        "why": REASONS[Reason.SKIPPED_BY_OPERATOR],
    }  # fmt: skip
    transaction.do("set_dead", **parameters)
