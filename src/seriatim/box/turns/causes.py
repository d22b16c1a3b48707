"""`Causes`: the message in hand that a published message is a result of.

A result carries the id of its cause, and what both belong to. A result of a message on the way to a gate takes the
message's place there, so it also carries the message's origin.
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

_SAY_WHICH = "tx.publish(result, cause=message), or sq.Answer(message, result) for a handler's answer"


class Causes:
    """The messages in hand, and the one at work."""

    def __init__(
        self, queue: str, messages: Sequence[Received], origin_of: Callable[[Received], Origin | None] | None = None
    ) -> None:
        self._queue = queue
        self._messages = messages
        #: Returns the origin of a message, which may be None; None: the queue doesn't lead to a gate.
        self._origin_of = origin_of
        #: The message that was given last; None: no single message was given.
        self.at_work: Received | None = None
        self.begin(messages)

    @property
    def lead_to_gate(self) -> bool:
        return self._origin_of is not None

    def begin(self, messages: Sequence[Received]) -> None:
        """These messages are given to a handler, alone or together."""
        self._given = messages
        self.at_work = messages[0] if len(messages) == 1 else None

    def iterated(self) -> None:
        """All of them were given one by one. At a gate the last one stays the cause: there each result needs one."""
        if not self.lead_to_gate:
            self.begin(self._given)

    def stamped(self, results: Sequence[Message], cause: Received | None) -> list[Message]:
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
            if not self.lead_to_gate:
                return result
            raise UsageError(
                f"message {result.message_id} results from one of {len(self._messages):,} messages in hand, and doesn't say from which",
                where=f"queue {self._queue!r}, which leads to a gate",
                remedy=_SAY_WHICH,
            )
        if (origin := None if self._origin_of is None else self._origin_of(cause)) is None:
            return correlated(result, cause)
        stamp = {**origin.properties(), **_belonging(cause)}
        stamp |= {name: value for name in TRACE if (value := cause.context.get(name)) is not None}
        properties = result.context
        context = {**properties, **stamp}
        if len(context) < len(properties) + len(stamp) or not TRACE.keys().isdisjoint(properties):
            context = self._agreed(result, stamp)
        return with_context(result, context)

    def _agreed(self, result: Message, stamp: Mapping[str, Any]) -> dict[str, Any]:
        """Return a message's properties with the stamp's: its own stay, a trace isn't completed, an origin must be the same."""
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
        return checked_cause(cause, self._messages, self._queue)


def correlated(result: Message, cause: Received) -> Message:
    """Return a message with the id of its cause, and what both belong to, where it doesn't say so itself."""
    properties, stamp = result.context, _belonging(cause)
    context = {**stamp, **properties}
    if len(context) < len(properties) + len(stamp):
        context |= {name: value for name, value in stamp.items() if context[name] is None}
    return with_context(result, context)


def _belonging(cause: Received) -> dict[str, str]:
    """The id of a message as that of a parent, and its correlation: of a message of a dialog that is its conversation."""
    own = cause.context.get("correlation_id") if cause.dialog is None else str(cause.dialog.conversation_id)
    return {"parent_id": cause.message_id, "correlation_id": str(own or cause.message_id)}


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
) -> Causes:
    """Return the causes of messages that are published while a delivery is in hand."""
    way = definitions.ways.get(queue)
    if way is None:
        return Causes(queue, messages)
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
        return Causes(queue, messages)
    return Causes(queue, messages, origin_of)
