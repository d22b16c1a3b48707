"""Messages that stop themselves alone, in an `Unordered` queue: postponed, waiting for an attempt or, with a gate, faulted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from seriatim.box.connection.access import Transaction
from seriatim.box.definitions.definition import BoxQueue
from seriatim.box.messages.received import context_of
from seriatim.box.operators.failed_message import FailedMessage
from seriatim.pipeline.types.message import Message


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
        message = Message(
            message_id=self.message_id,
            type=self.type,
            content_type=self.content_type,
            context=context_of(self.context or "{}", self.property_types),
            body=b"",
        )
        return FailedMessage(message, [self.entry_id], not self.is_faulted)


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
