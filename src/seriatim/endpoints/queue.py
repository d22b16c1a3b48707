"""The queue port: publishes messages to another queue of the same box, exactly once, in the transaction of the turn."""

from __future__ import annotations

from seriatim.endpoints.delivery import Delivered, Transaction, given_messages
from seriatim.pipeline.text.name import checked_name
from seriatim.pipeline.types.message import Message, Received
from seriatim.pipeline.types.origin import ORIGIN
from seriatim.pipeline.types.sent_by import LINK

#: Properties of a message's way to this queue, not of its content.
_NOT_TAKEN = frozenset({"location", "to", "part", "parts", "parent_id", "dialog", "unique_key", *ORIGIN, *LINK})


class QueuePort:
    """A handler that publishes a new message with the same type, body, parts and properties, whose ``parent_id`` is the old id."""

    def __init__(self, queue: str, *, ordinal: str | None = None) -> None:
        self._queue = checked_name(queue, "a queue's name")
        #: The property that gets the ordinal under which the message left, so that the other queue can use it as its sequence; a message
        #: type has to declare it as a long. None: no property.
        self._ordinal = None if ordinal is None else checked_name(ordinal, "a property (ordinal)")

    def __call__(self, received: Received | Delivered, tx: Transaction) -> list[Message]:
        return [self._onward(message) for message in given_messages(received)]

    def _onward(self, message: Received) -> Message:
        context = {name: value for name, value in message.context.items() if name not in _NOT_TAKEN}
        context |= {"to": self._queue, "parent_id": message.message_id}
        if self._ordinal is not None:
            context[self._ordinal] = message.ordinal
        return Message(
            type=message.type, body=message.body, content_type=message.content_type, context=context,
            parts=message.parts,
        )  # fmt: skip
