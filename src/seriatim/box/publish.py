"""What `Session.publish` sends: messages as columns, checked, in statements of a size that PostgreSQL takes well."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal

from seriatim.errors import UsageError
from seriatim.pipeline.location import checked_location
from seriatim.pipeline.message import Message, Property

__all__ = ["DEFAULT_LOCATION", "MOST_BODY_BYTES", "columns_of", "distinct", "portions"]

#: Where a message is received that doesn't say where.
DEFAULT_LOCATION = "box"
#: The largest body. PostgreSQL's own limit is 1 GiB for a whole statement's parameter.
MOST_BODY_BYTES = 512 * 2**20
#: A statement carries that many bytes of bodies, unless one body is larger.
_PORTION_BYTES = 32 * 2**20
#: Given by the box, or fields of the message: no application sets these among the properties.
_OURS = frozenset({"ticket", "epoch", "type", "message_id", "received_at"})
_INT64 = 2**63


def distinct(messages: Iterable[Message]) -> list[Message]:
    """The messages, of those with the same id only the first.

    Raises:
        UsageError: something that isn't a message, or a body that is too large.
    """
    found: dict[str, Message] = {}
    for message in messages:
        if not isinstance(message, Message):
            raise UsageError(f"{type(message).__name__} is not a message", remedy="publish a list of seriatim.Message")
        if len(message.body) > MOST_BODY_BYTES:
            raise UsageError(
                f"the body of message {message.message_id} has {len(message.body):,} bytes",
                remedy=f"at most {MOST_BODY_BYTES:,}; store it elsewhere and publish where it is",
            )
        found.setdefault(message.message_id, message)
    return list(found.values())


def portions(messages: Sequence[Message]) -> Iterator[Sequence[Message]]:
    """The messages in order, cut so that no statement carries too many bytes."""
    begin, size = 0, 0
    for place, message in enumerate(messages):
        if size and size + len(message.body) > _PORTION_BYTES:
            yield messages[begin:place]
            begin, size = place, 0
        size += len(message.body)
    if begin < len(messages):
        yield messages[begin:]


def columns_of(messages: Sequence[Message]) -> dict[str, list[str] | list[str | None] | list[bytes]]:
    """The parameters of ``publish.sql``: a list for each column.

    Raises:
        UsageError: a property that has no place in a context; names message and property.
    """
    return {
        "message_ids": [message.message_id for message in messages],
        "types": [message.type for message in messages],
        "locations": [_location(message) for message in messages],
        "content_types": [message.content_type for message in messages],
        "contexts": [_json(message) for message in messages],
        "bodies": [message.body for message in messages],
    }


def _location(message: Message) -> str:
    return checked_location(message.context.get("location", DEFAULT_LOCATION))


def _json(message: Message) -> str:
    context: Mapping[str, Property] = message.context
    if wrong := _OURS & context.keys():
        raise UsageError(
            f"message {message.message_id}: {', '.join(sorted(wrong))} can't be given as a property",
            remedy="type and message_id are fields of the message; the box gives the others",
        )
    pairs = (f"{_text(name, name, message)}: {_value(name, value, message)}" for name, value in context.items())
    return "{" + ", ".join(pairs) + "}"


def _value(name: str, value: Property, message: Message) -> str:
    match value:
        case None | bool():
            return json.dumps(value)
        case str():
            return _text(name, value, message)
        case int() if -_INT64 <= value < _INT64:
            return json.dumps(int(value))
        case float() if math.isfinite(value):
            return json.dumps(float(value))
        case Decimal() if value.is_finite():
            return str(value)
        case datetime():
            moment = value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
            return json.dumps(moment.isoformat(timespec="microseconds"))
    raise _wrong(name, value, message)


def _text(name: object, text: object, message: Message) -> str:
    if isinstance(text, str) and "\0" not in text:
        encoded = json.dumps(text, ensure_ascii=False)
        try:
            encoded.encode()
        except UnicodeEncodeError:
            pass
        else:
            return encoded
    raise _wrong(name, text, message)


def _wrong(name: object, value: object, message: Message) -> UsageError:
    return UsageError(
        f"message {message.message_id}: the property {name!r} can't be {value!r:.80}",
        remedy="string without NUL, long (64 bits), finite decimal or float, boolean, datetime or None",
    )
