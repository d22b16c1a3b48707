"""Check the messages of a `publish` call and split them into statements of a suitable size, as columns."""

from __future__ import annotations

import json
import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from json.encoder import encode_basestring
from typing import Any

import numpy as np

from seriatim.box.connection.fast_paths import SINGLE_MESSAGE, RoutedPart
from seriatim.box.connection.misuse import Misuse
from seriatim.box.definitions.route import Routed
from seriatim.box.publishing.slips import may_be_reply
from seriatim.errors import UsageError, shown
from seriatim.kernel.values.reading import unwrapped
from seriatim.pipeline.declared.location import DEFAULT_LOCATION, checked_location
from seriatim.pipeline.types.message import Message, Property, Received
from seriatim.pipeline.types.origin import ORIGIN
from seriatim.pipeline.types.sent_by import LINK

#: The largest body, with the parts. PostgreSQL's own limit is 1 GiB for a whole statement's parameter.
MOST_BODY_BYTES = 512 * 2**20
#: The most bytes of bodies in a statement, unless one body is larger.
_PORTION_BYTES = 32 * 2**20
#: PostgreSQL's limit for all names and values of a JSON object, the context.
MOST_CONTEXT_BYTES = 2**28 - 1
#: A number is written out, without an exponent; the function `publish` of SQL has the same limit.
_LONGEST_NUMBER = 100
#: Set by the box, or fields of the message: applications can't set these among the properties.
_OURS = frozenset({"ticket", "epoch", "type", "message_id", "received_at", *ORIGIN, *LINK})
#: And where the messages may carry the origin that a session has given them.
_OURS_CARRIED = _OURS - ORIGIN.keys() - LINK.keys()
_PARTS = ("part_counts", "part_places", "part_names", "part_content_types", "part_bodies")
_INT64 = 2**63
_CONSTANTS: Mapping[bool | None, str] = {None: "null", True: "true", False: "false"}
_WRITTEN: Mapping[type[Any], str] = {Decimal: "decimal", float: "double", datetime: "timestamp"}


def listed(messages: Message | Iterable[Message]) -> list[Message]:
    if isinstance(messages, Message):
        return [messages]
    if not isinstance(messages, list) and (
        not isinstance(messages, Iterable) or isinstance(messages, Mapping | str | bytes)
    ):
        raise _no_message(messages)
    return list(messages)


def distinct(messages: Iterable[Message]) -> list[Message]:
    """The messages; of several with the same id only the first."""
    by_id: dict[str, Message] = {}
    for message in messages:
        if not isinstance(message, Message):
            raise _no_message(message)
        if isinstance(message, Received):
            message.check()  # its receiver may have changed it
        check_size(message)
        by_id.setdefault(message.message_id, message)
    return list(by_id.values())


def _no_message(message: object) -> Misuse:
    remedy = "publish a seriatim.Message, or a list of them"
    if isinstance(message, Mapping):
        remedy = 'write sq.Message(type="…", body=json.dumps(…).encode(), context={…})'
    return Misuse(f"{type(message).__name__} is not a message", remedy=remedy, argument="messages")


def check_size(message: Message) -> None:
    if (size := _size(message)) > MOST_BODY_BYTES:
        raise UsageError(
            f"the body of message {message.message_id} has {size:,} bytes"
            + (", its parts included" if message.parts else ""),
            remedy=f"at most {MOST_BODY_BYTES:,}; store it elsewhere and publish where it is",
        )


def portions(messages: Sequence[Message]) -> list[tuple[int, int]]:
    """Ranges of messages, begin and end (exclusive), so that no statement is too large."""
    bounds, begin, size = [], 0, 0
    for place, message in enumerate(messages):
        if size and size + _size(message) > _PORTION_BYTES:
            bounds.append((begin, place))
            begin, size = place, 0
        size += _size(message)
    if begin < len(messages):
        bounds.append((begin, len(messages)))
    return bounds


def check_all(routed: Routed) -> None:
    """Check that all messages can be sent, before the first is sent; errors are those of `parameters_of`."""
    for place, message in enumerate(routed.typed.messages):
        _location(message)
        _json(message, _context(routed, place), carried=routed.typed.carried)


def parameters_of(routed: Routed, begin: int, end: int) -> dict[str, Any]:
    """The parameters of ``take_in`` for some messages of a batch: a list for each column."""
    messages = routed.typed.messages[begin:end]
    return {
        "message_ids": [message.message_id for message in messages],
        "types": [message.type for message in messages],
        "locations": [_location(message) for message in messages],
        "content_types": [message.content_type for message in messages],
        "bodies": [message.body for message in messages],
        **_parts(messages),
        **routing_of(routed, begin, end),
        "on_way": routed.on_way,
    }


def routing_of(routed: Routed, begin: int, end: int) -> dict[str, Any]:
    """The parameters that result from routing: the properties of messages, and their entries."""
    messages, entries, carried = routed.typed.messages[begin:end], routed.entries, routed.typed.carried
    own = _entries_of(routed, begin, end)
    contexts = [_context(routed, place) for place in range(begin, end)]
    places = np.array(entries.places[own], np.int64) - begin
    numbered = routed.numbered.intersection(entries.queue_ids[own]) if routed.numbered else None
    return {
        "known_version": routed.version,
        "contexts": [
            _json(message, context, carried=carried) for message, context in zip(messages, contexts, strict=True)
        ],
        "property_types": [_types(context) for context in contexts],
        "destinations": np.bincount(places, minlength=end - begin).tolist(),
        "problems": list(routed.typed.problems[begin:end]),
        "entry_places": (places + 1).tolist(),
        "entry_queues": entries.queue_ids[own],
        "entry_groups": entries.groups[own],
        "entry_sequences": entries.sequences[own],
        "entry_sizes": entries.sizes[own],
        "entry_priorities": entries.priorities[own],
        "entry_problems": entries.problems[own],
        "entry_subscriptions": entries.subscriptions[own],
        **({"numbered_queues": sorted(numbered)} if numbered else {}),
        **({} if entries.meanings is None else {"entry_meanings": entries.meanings[own]}),
    }


def gate_places_of(routed: Routed, begin: int, end: int) -> dict[str, list[Any]]:
    """Return the parameters of ``take_in`` for the places of entries at gates; none if nothing is on the way to one."""
    gates = routed.gates
    if gates is None:
        return {}
    entries, own = routed.entries, _entries_of(routed, begin, end)
    places = [
        gates.place(queue_id, _context(routed, place))
        for place, queue_id in zip(entries.places[own], entries.queue_ids[own], strict=True)
    ]
    gate_ids, groups, numbers = (list(column) for column in zip(*places, strict=True)) if places else ([], [], [])
    return {"entry_gates": gate_ids, "entry_origins": groups, "entry_numbers": numbers}


def keys_of(routed: Routed, begin: int, end: int) -> list[str | None] | None:
    """Return the unique keys of the entries of some messages of a batch, None for an entry without one; None: the batch has none."""
    keys = routed.entries.keys
    return None if keys is None else list(keys[_entries_of(routed, begin, end)])


def parameters_of_one(routed: Routed, begin: int, end: int) -> dict[str, Any] | None:
    """The parameters of ``take_in_one``; None unless it is one message without parts for one queue."""
    message, entries, own = routed.typed.messages[begin], routed.entries, _entries_of(routed, begin, end)
    problem = entries.problems[own.start] if own.stop > own.start else None
    numbered = bool(routed.numbered) and not routed.numbered.isdisjoint(entries.queue_ids[own.start : own.stop])
    part = RoutedPart(
        end - begin, message, own.stop - own.start, problem, entries.keys is not None, numbered,
        entries.meanings is not None, may_be_reply(message.context.get("correlation_id")),
    )  # fmt: skip
    if not SINGLE_MESSAGE.applies(part):
        return None
    context = _context(routed, begin)
    return {
        "known_version": routed.version,
        "of_message": message.message_id,
        "of_type": message.type,
        "at_location": _location(message),
        "of_content_type": message.content_type,
        "of_context": _json(message, context, carried=routed.typed.carried),
        "of_property_types": _types(context),
        "of_body": message.body,
        "of_queue": entries.queue_ids[own.start],
        "of_group": entries.groups[own.start],
        "of_sequence": entries.sequences[own.start],
        "of_size": entries.sizes[own.start],
        "of_priority": entries.priorities[own.start],
        "by_subscriptions": entries.subscriptions[own.start],
        "on_way": routed.on_way or routed.typed.carried,
    }


def stored_context(message: Message, context: Mapping[str, Property]) -> tuple[str, str | None]:
    """The properties of a stored message: JSON, and the types that JSON doesn't have; None: there are none."""
    return _json(message, context, carried=True), _types(context)


def _entries_of(routed: Routed, begin: int, end: int) -> slice:
    return slice(bisect_left(routed.entries.places, begin), bisect_left(routed.entries.places, end))


def _context(routed: Routed, place: int) -> Mapping[str, Property]:
    """Return the stored properties of a message; the given ones, if the message doesn't fit its type."""
    typed = routed.typed
    return typed.contexts[place] if typed.problems[place] is None else typed.messages[place].context


def _size(message: Message) -> int:
    return len(message.body) + sum(len(part.body) for part in message.parts) if message.parts else len(message.body)


def _parts(messages: Sequence[Message]) -> dict[str, list[Any] | None]:
    """The parameters for parts; NULL if no message has parts."""
    if not any(message.parts for message in messages):
        return dict.fromkeys(_PARTS)
    parts = [(place, part) for place, message in enumerate(messages, 1) for part in message.parts]
    columns = (
        [len(message.parts) or None for message in messages],
        [place for place, _ in parts],
        [part.name for _, part in parts],
        [part.content_type for _, part in parts],
        [part.body for _, part in parts],
    )
    return dict(zip(_PARTS, columns, strict=True))


def _location(message: Message) -> str:
    return checked_location(message.context.get("location") or DEFAULT_LOCATION)


def _types(context: Mapping[str, Property]) -> str | None:
    """The types of the properties whose types JSON doesn't have, as JSON; None if there are none."""
    types = {name: kind for name, value in context.items() if (kind := _WRITTEN.get(type(value))) is not None}
    return json.dumps(types) if types else None


def _json(message: Message, context: Mapping[str, Property], *, carried: bool) -> str:
    if wrong := (_OURS_CARRIED if carried else _OURS) & context.keys():
        raise UsageError(
            f"message {message.message_id}: {', '.join(sorted(wrong))} can't be given as a property",
            remedy="type and message_id are fields of the message; the box gives the others",
        )
    pairs = [
        ((type(name) is str and _written_name(name)) or f"{_text(name, name, message)}: ")
        + (_text(name, value, message) if type(value) is str else _value(name, value, message))
        for name, value in context.items()
    ]
    written = "{" + ", ".join(pairs) + "}"
    if len(written) > MOST_CONTEXT_BYTES // 4 and (size := len(written.encode())) > MOST_CONTEXT_BYTES:
        raise UsageError(
            f"the context of message {message.message_id} has {size:,} bytes",
            remedy=f"at most {MOST_CONTEXT_BYTES:,}; put into the body what is large",
        )
    return written


# The same few names again and again.
@lru_cache(maxsize=10_000)
def _written_name(name: str) -> str | None:
    """Return a property's name as JSON, with its colon; None: it has to be checked for each message."""
    return f"{encode_basestring(name)}: " if name.isascii() and "\0" not in name else None


def _value(name: str, value: Property, message: Message) -> str:  # noqa: PLR0911 - one return a type
    match value:
        case str():
            return _text(name, value, message)
        case None | bool():
            return _CONSTANTS[value]
        case int() if -_INT64 <= value < _INT64:
            return int.__repr__(value)
        case float() if math.isfinite(value):
            return json.dumps(float(value))
        case Decimal() if value.is_finite():
            if _length(value) > _LONGEST_NUMBER:
                raise UsageError(
                    f"message {message.message_id}: the property {name!r} is a number of more than {_LONGEST_NUMBER} characters",
                    remedy="round it, give a float, or give it as text",
                )
            return str(value)
        case datetime():
            try:
                moment = value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
            except OverflowError:
                raise _wrong(name, value, message) from None
            return json.dumps(moment.isoformat(timespec="microseconds"))
    if (plain := unwrapped(value)) is not value:  # a scalar of NumPy or Arrow
        return _value(name, plain, message)
    raise _wrong(name, value, message)


def _length(value: Decimal) -> int:
    """The length of a finite number written without an exponent, computed without writing it."""
    sign, digits, exponent = value.as_tuple()
    places = max(-int(exponent), 0)
    whole = max(len(digits) + int(exponent), 1) if value else 1
    return sign + whole + (1 + places if places else 0)


def _text(name: object, text: object, message: Message) -> str:
    if isinstance(text, str) and "\0" not in text:
        encoded = encode_basestring(text)  # as `json.dumps` does, which makes an encoder for it each time
        if text.isascii():
            return encoded
        try:
            encoded.encode()
        except UnicodeEncodeError:
            pass
        else:
            return encoded
    raise _wrong(name, text, message)


def _wrong(name: object, value: object, message: Message) -> UsageError:
    return UsageError(
        f"message {message.message_id}: the property {shown(name)} can't be {shown(value, 80)}",
        remedy="string without NUL, long (64 bits), finite decimal or float, boolean, datetime or None",
    )
