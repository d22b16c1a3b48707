"""The header of a message on its way to another box: all of it but its id and its bytes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, NoReturn
from uuid import UUID

from seriatim.errors import LinkProtocolError
from seriatim.pipeline.text.storable import fits_text

__all__ = ["MessageHeader", "PartHeader", "SentBy"]

_LARGEST = 2**63 - 1
_LONGEST_SPACE = 128
#: Of a number, before and behind the point: more than a double has written out.
_MOST_DIGITS = 400


@dataclass(frozen=True, slots=True)
class SentBy:
    """Where a message came into the first box: the box, the queue by which it left, and its ticket there."""

    box: UUID
    queue: str
    location: str
    epoch: int
    number: int


@dataclass(frozen=True, slots=True)
class PartHeader:
    """A part of a message: its bytes stand behind the body's, part after part."""

    name: str
    content_type: str | None
    size: int


@dataclass(frozen=True, slots=True)
class MessageHeader:
    """A message without its id and its bytes.

    Args:
        message_type: its type.
        content_type: the media type of its body; None: it has none.
        space: in which its id is unique; empty where the publisher has none.
        context: its properties, as JSON says them.
        property_types: by name, of those properties whose types JSON doesn't have: decimal, double, timestamp.
        sent_by: where it came into its home box.
        through: the boxes that it went through, its home first.
        parts: its parts.
    """

    message_type: str
    content_type: str | None
    space: str
    context: Mapping[str, Any]
    property_types: Mapping[str, str]
    sent_by: SentBy
    through: Sequence[UUID]
    parts: Sequence[PartHeader] = ()

    def to_bytes(self) -> bytes:
        """The header as JSON in UTF-8."""
        by = self.sent_by
        fields = {
            "type": self.message_type,
            "content_type": self.content_type,
            "space": self.space,
            "context": self.context,
            "property_types": dict(self.property_types),
            "sent_by": {
                "box": str(by.box),
                "queue": by.queue,
                "location": by.location,
                "epoch": by.epoch,
                "number": by.number,
            },
            "through": list(map(str, self.through)),
            "parts": [{"name": one.name, "content_type": one.content_type, "size": one.size} for one in self.parts],
        }
        return _encoded(fields).encode()

    @classmethod
    def read(cls, header: bytes, size: int) -> MessageHeader:
        """The header of a message whose body and parts have `size` bytes together.

        Raises:
            LinkProtocolError: it isn't what the protocol says.
        """
        try:
            fields = _DECODER.decode(str(header, "utf-8"))
        except (ValueError, ArithmeticError, RecursionError) as error:
            raise _refused(f"is no JSON that says each name once: {error}") from error
        _check_names(fields, "a header", _NAMES)
        by, parts = fields["sent_by"], fields["parts"]
        _check_names(by, "sent_by", _SENT_BY)
        if not isinstance(parts, list):
            raise _refused("has parts that are no list")
        for one in parts:
            _check_names(one, "a part", _PART)
        context, types = fields["context"], fields["property_types"]
        _check_context(context, types)
        found = [PartHeader(_text(one, "name"), _maybe_text(one, "content_type"), _whole(one, "size")) for one in parts]
        if sum(one.size for one in found) > size:
            raise _refused("has parts that are larger than the message")
        if len({one.name for one in found}) < len(found):
            raise _refused("names a part twice")
        through = fields["through"]
        if not isinstance(through, list) or not through:
            raise _refused("names no box that the message went through")
        sent = SentBy(
            _uuid(by["box"]), _text(by, "queue"), _text(by, "location"), _whole(by, "epoch"), _whole(by, "number")
        )
        boxes = tuple(map(_uuid, through))
        if boxes[0] != sent.box:
            raise _refused("begins its way in a box that isn't its home")
        return cls(
            _text(fields, "type"), _maybe_text(fields, "content_type"), _space(fields["space"]), context, types, sent,
            boxes, tuple(found),
        )  # fmt: skip


_NAMES = frozenset({"type", "content_type", "space", "context", "property_types", "sent_by", "through", "parts"})
_SENT_BY = frozenset({"box", "queue", "location", "epoch", "number"})
_PART = frozenset({"name", "content_type", "size"})


def _refused(what: str) -> LinkProtocolError:
    return LinkProtocolError(
        f"the header of a message {what}", where="link", remedy="look at the other box and its version"
    )


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name stands twice")
    return found


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number")


_DECODER = json.JSONDecoder(parse_float=Decimal, parse_constant=_no_number, object_pairs_hook=_once)


def _encoded(value: Any) -> str:
    """JSON, with decimals as they are written."""
    match value:
        case Mapping():
            return "{" + ", ".join(f"{json.dumps(name)}: {_encoded(one)}" for name, one in value.items()) + "}"
        case list() | tuple():
            return "[" + ", ".join(map(_encoded, value)) + "]"
        case Decimal():
            return str(value)
    return json.dumps(value, allow_nan=False)


def _check_names(fields: Any, what: str, names: frozenset[str]) -> None:
    if not isinstance(fields, dict) or fields.keys() != names:
        raise _refused(f"isn't as the protocol says: {what} has {', '.join(sorted(names))}, and nothing else")


def _check_context(context: Any, types: Any) -> None:
    if not isinstance(context, dict) or not isinstance(types, dict):
        raise _refused("has properties that are no object")
    for name, value in context.items():
        if not _can_be_stored(value) or not fits_text(name):
            raise _refused("has a property that a box can't store")
    for name, kind in types.items():
        read = _TYPES.get(kind) if isinstance(kind, str) else None
        if name not in context or read is None:
            raise _refused("has a type of a property that there isn't")
        if context[name] is not None and not read(context[name]):
            raise _refused(f"has a property that is no {kind}")


def _can_be_stored(value: Any) -> bool:
    match value:
        case None | bool():
            return True
        case str():
            return fits_text(value)
        case int():
            return abs(value) < 10**_MOST_DIGITS
        case Decimal():
            return abs(value.adjusted()) < _MOST_DIGITS and len(value.as_tuple().digits) < _MOST_DIGITS
    return False


def _is_number(value: Any) -> bool:
    return isinstance(value, int | Decimal) and not isinstance(value, bool)


def _is_moment(value: Any) -> bool:
    try:
        return isinstance(value, str) and bool(datetime.fromisoformat(value))
    except ValueError:
        return False


#: The types that JSON doesn't have, as the box notes them.
_TYPES: Mapping[str, Callable[[Any], bool]] = {"decimal": _is_number, "double": _is_number, "timestamp": _is_moment}


def _text(fields: Mapping[str, Any], name: str) -> str:
    value = fields[name]
    if isinstance(value, str) and value and fits_text(value):
        return value
    raise _refused(f"has as {name} no text that a box can store")


def _space(value: Any) -> str:
    if isinstance(value, str) and len(value) <= _LONGEST_SPACE and fits_text(value):
        return value
    raise _refused("has as space no text that a box can store")


def _maybe_text(fields: Mapping[str, Any], name: str) -> str | None:
    return None if fields[name] is None else _text(fields, name)


def _whole(fields: Mapping[str, Any], name: str) -> int:
    value = fields[name]
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LARGEST:
        return value
    raise _refused(f"has as {name} no whole number from 0")


def _uuid(value: Any) -> UUID:
    try:
        found = UUID(value)
    except (ValueError, AttributeError, TypeError) as error:
        raise _refused("names a box whose id is no UUID") from error
    if str(found) != value:
        raise _refused("names a box whose id isn't written as UUIDs are")
    return found
