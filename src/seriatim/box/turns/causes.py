"""`Causes`: the message in hand that a published message is a result of.

Only deliveries of queues whose messages are on the way to a gate have it. A result of a message takes the message's place
at the gate, so it carries the message's origin.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from seriatim.box.definitions.definition import Definitions
from seriatim.errors import UsageError, shown
from seriatim.pipeline.types.answer import Answer
from seriatim.pipeline.types.box_properties import TRACE
from seriatim.pipeline.types.message import Message, Received, with_context
from seriatim.pipeline.types.origin import ORIGIN, Origin

__all__ = ["Causes", "causes_of"]

_SAY_WHICH = "tx.publish(result, cause=message), or sq.Answer(message, result) for a handler's answer"


class Causes:
    """The messages in hand, and the one at work."""

    def __init__(
        self, queue: str, messages: Sequence[Received], origin_of: Callable[[Received], Origin | None]
    ) -> None:
        self._queue = queue
        self._messages = messages
        #: Returns the origin of a message; None: it has none.
        self._origin_of = origin_of
        #: The message that was given last; None: no single message was given.
        self.at_work: Received | None = None
        self.begin(messages)

    def begin(self, messages: Sequence[Received]) -> None:
        """These messages are given to a handler, alone or together."""
        self.at_work = messages[0] if len(messages) == 1 else None

    def stamped(self, results: Sequence[Message], cause: Received | None) -> list[Message]:
        """Messages with the origin of their causes."""
        return [
            # The publisher refuses a value that is no message.
            self._stamped(message, message.cause if isinstance(message, Answer) else cause)
            if isinstance(message, Message)
            else message
            for message in results
        ]

    def _stamped(self, result: Message, named: Received | None) -> Message:
        cause = self.at_work if named is None else self.in_hand(named)
        if cause is None:
            raise UsageError(
                f"message {result.message_id} results from one of {len(self._messages):,} messages in hand, and doesn't say from which",
                where=f"queue {self._queue!r}, which leads to a gate",
                remedy=_SAY_WHICH,
            )
        stamp = self._stamp_of(cause)
        if stamp is None:
            return result
        properties = result.context
        context = {**properties, **stamp}
        if len(context) < len(properties) + len(stamp) or not TRACE.keys().isdisjoint(properties):
            context = self._agreed(result, stamp)
        return with_context(result, context)

    def _stamp_of(self, cause: Received) -> dict[str, Any] | None:
        """Return the properties that a message gives to its results; None: it has no origin."""
        origin = self._origin_of(cause)
        if origin is None:
            return None
        context = cause.context
        stamp = origin.properties()
        stamp["parent_id"] = cause.message_id
        stamp["correlation_id"] = context.get("correlation_id") or cause.message_id
        for name in TRACE:
            if (value := context.get(name)) is not None:
                stamp[name] = value
        return stamp

    def _agreed(self, result: Message, stamp: Mapping[str, Any]) -> dict[str, Any]:
        """Return the properties of a message that has some of its stamp's already: its own stay, an existing trace isn't completed, and its
        origin must be the same.
        """
        context = result.context
        if any(context.get(name, stamp[name]) != stamp[name] for name in ORIGIN):
            raise UsageError(
                f"message {result.message_id} carries another origin than its cause",
                where=f"queue {self._queue!r}, which leads to a gate",
                remedy=f"leave out {', '.join(ORIGIN)}: the session writes them",
            )
        has_trace = not TRACE.keys().isdisjoint(context)
        added = {
            name: value
            for name, value in stamp.items()
            if context.get(name) is None and not (has_trace and name in TRACE)
        }
        # The result's own value may be equal and of another type: True for 1. The stamp has the right type.
        return {**context, **added, **{name: stamp[name] for name in ORIGIN}}

    def in_hand(self, cause: Received) -> Received:
        """Return the message in hand that is named as a cause."""
        return checked_cause(cause, self._messages, self._queue)


def checked_cause(cause: object, messages: Sequence[Received], queue: str | None) -> Received:
    """Return the message in hand that is named as a cause. `queue`: the name of their queue; None: no message is in hand."""
    if isinstance(cause, Received):
        # The object itself first: two messages of different publishers may have one id.
        for message in messages:
            if message is cause:
                return message
        for message in messages:
            if message.message_id == cause.message_id:
                return message
    cause_text = f"message {cause.message_id}" if isinstance(cause, Received) else shown(cause, 80)
    raise UsageError(
        f"{cause_text} can't be the cause: it is not in hand",
        where="" if queue is None else f"queue {queue!r}",
        remedy="name a message that this session has received, in the same transaction",
    )


def causes_of(
    queue: str, group: str | None, incarnation: int, messages: Sequence[Received], definitions: Definitions
) -> Causes | None:
    """Return the causes of messages that are published while a delivery is in hand; None: it carries no origin."""
    way = definitions.ways.get(queue)
    if way is None:
        return None
    origin_queue = way.declared.name
    is_origin = origin_queue == queue

    def origin_of(message: Received) -> Origin | None:
        if (carried := Origin.of(message.context)) is not None and carried.queue == origin_queue:
            return carried
        key = message.group if group is None else group
        if not is_origin or key is None or message.ordinal is None:
            return None
        return Origin(origin_queue, key, incarnation, message.ordinal)

    if not is_origin and all(origin_of(message) is None for message in messages):
        return None
    return Causes(queue, messages, origin_of)
