"""The message that tells of a handler's failure, so that anybody can subscribe to failures."""

from __future__ import annotations

import json
from collections.abc import Mapping

from seriatim.kernel.filter import Expression
from seriatim.kernel.route import properties
from seriatim.pipeline.message import Message, Property, Received

__all__ = ["FAILURE", "FAILURE_PROPERTIES", "asks_for_failures", "failure_of"]

#: Its type.
FAILURE = "seriatim.failure"
#: What a filter may name of it, whether a type declares it or not.
FAILURE_PROPERTIES: Mapping[str, str] = {
    "failed_queue": "string",
    "failed_group": "string",
    "failed_type": "string",
    "error_class": "string",
    "attempts": "long",
    "fault_kind": "string",
    "will_retry": "boolean",
}
#: Where the failed message was sent; the failure goes its own way.
_NOT_TAKEN = frozenset({"location", "to", "part", "parts", "parent_id"})


def asks_for_failures(where: str, expression: Expression) -> bool:
    """Whether a filter asks for failures: it says their type, or names a property that only they have.

    Args:
        where: its text.
        expression: what that stands for.
    """
    return f"'{FAILURE}'" in where or any(each.name in FAILURE_PROPERTIES for each in properties(expression))


def failure_of(
    message: Received, queue: str, group: str | None, *, kind: str, error_class: str, error: str, will_retry: bool
) -> Message:
    """The failure of a handler at a message: what it was, with the properties of the message beside it.

    Args:
        message: at which the handler failed, for the `attempt` that it says.
        queue: the queue's name.
        group: the key of its group; None where it has none.
        kind: ``transient``, ``business``, ``poison`` or ``timeout``.
        error_class: the name of the error's class.
        error: what it said.
        will_retry: whether the message will be tried again by itself.
    """
    about: dict[str, Property] = {
        "failed_queue": queue,
        "failed_group": group,
        "failed_type": message.type,
        "error_class": error_class,
        "attempts": message.attempt,
        "fault_kind": kind,
        "will_retry": will_retry,
    }
    kept = {name: value for name, value in message.context.items() if name not in _NOT_TAKEN}
    body = {"message_id": message.message_id, "ordinal": message.ordinal, "error": error}
    return Message(
        type=FAILURE,
        body=json.dumps(body).encode(),
        content_type="application/json",
        context={**kept, **about, "parent_id": message.message_id},
    )
