"""The message about a failure, to which queues can subscribe."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from seriatim.kernel.filters.filter import Expression
from seriatim.kernel.route import properties
from seriatim.pipeline.types.message import Message, Property, Received
from seriatim.pipeline.types.origin import ORIGIN

#: Its type, and its location: the transaction that reports a failure waits for none that has taken numbers of another location.
FAILURE = "seriatim.failure"
#: The properties that a filter may name, whether a type declares them or not.
FAILURE_PROPERTIES: Mapping[str, str] = {
    "failed_queue": "string",
    "failed_group": "string",
    "failed_type": "string",
    "error_class": "string",
    "attempts": "long",
    "fault_kind": "string",
    "will_retry": "boolean",
    "dead_letter": "boolean",
    "error_text": "string",
    "failed_ordinal": "long",
}
#: The route of the failed message, which the failure doesn't take.
_NOT_TAKEN = frozenset({"location", "to", "part", "parts", "parent_id", "unique_key", *ORIGIN})


def asks_for_failures(where: str, expression: Expression) -> bool:
    """Whether a filter asks for failures: it names their type, or a property that only failures have."""
    return f"'{FAILURE}'" in where or any(each.name in FAILURE_PROPERTIES for each in properties(expression))


@dataclass(frozen=True, slots=True)
class Failed:
    #: The queue's name; None if no queue has the message.
    queue: str | None
    #: The key of its group; None if it has none.
    group: str | None
    #: ``transient``, ``unexpected``, ``bug``, ``business``, ``poison`` or ``timeout`` (a handler failed), ``hole`` (a message before it
    #: is missing), ``dead`` (it was set aside permanently), ``invalid`` (it doesn't fit the queue or its type), ``conflict`` (its number
    #: was taken in before with another content), ``unrouted``.
    kind: str
    error_class: str
    error: str
    attempts: int
    #: Its position among the released messages of its group, if it was released.
    ordinal: int | None = None
    will_retry: bool = False
    dead_letter: bool = False
    #: The ids of all messages that have failed together, if several may: a set that was not complete in time.
    message_ids: tuple[str, ...] = ()


def failure_of(message: Message, what: Failed, *, with_body: bool = False) -> Message:
    """Return the failure message for a message, with the properties of the message, of its dialog, and of the failure. `with_body`: it has
    the body of the message, and the error as a property.
    """
    about: dict[str, Property] = {
        "failed_queue": what.queue,
        "failed_group": what.group,
        "failed_type": message.type,
        "error_class": what.error_class,
        "attempts": what.attempts,
        "fault_kind": what.kind,
        "will_retry": what.will_retry,
        "dead_letter": what.dead_letter,
    }
    kept = {name: value for name, value in message.context.items() if name not in _NOT_TAKEN}
    if isinstance(message, Received) and message.dialog is not None:
        kept |= message.dialog.properties()
    body, content_type = message.body, message.content_type
    if with_body:
        together = f"; its messages are {', '.join(what.message_ids)}" if what.message_ids else ""
        about |= {"error_text": what.error + together, "failed_ordinal": what.ordinal}
    else:
        said: dict[str, object] = {"message_id": message.message_id, "ordinal": what.ordinal, "error": what.error}
        said |= {"message_ids": what.message_ids} if what.message_ids else {}
        body, content_type = json.dumps(said).encode(), "application/json"
    return Message(
        type=FAILURE,
        body=body,
        content_type=content_type,
        parts=message.parts if with_body else (),
        context={**kept, **about, "location": FAILURE, "parent_id": message.message_id},
    )
