"""`Answer`: a message that a handler publishes, with the received message from which it results."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from seriatim.errors import UsageError, shown
from seriatim.pipeline.types.message import Message, Received


@dataclass(frozen=True, slots=True, init=False)
class Answer(Message):
    """A message with its cause, for a handler that has several messages in hand: ``sq.Answer(message, result)``.

    The result carries the id of its cause, and what both belong to. A queue with a gate needs it to know whose place a result takes.

    Args:
        cause: the received message from which it results.
        message: the message to publish.

    Raises:
        UsageError: `cause` isn't a received message, or `message` isn't a message.
    """

    cause: Received

    def __init__(self, cause: Received, message: Message | None = None, **given: Any) -> None:
        if not isinstance(cause, Received):
            raise UsageError(f"{shown(cause, 80)} is not a received message", remedy="sq.Answer(message, result)")
        if message is not None:
            if not isinstance(message, Message):
                raise UsageError(
                    f"{shown(message, 80)} is not a message",
                    remedy="give each message its own sq.Answer(message, result)",
                )
            given = {each.name: getattr(message, each.name) for each in fields(Message)} | given
        own = Message(**given)
        for each in fields(Message):
            object.__setattr__(self, each.name, getattr(own, each.name))
        object.__setattr__(self, "cause", cause)
