"""Convert rows of a frame (Arrow columns) to messages.

=============  ===========================================================================================
message_id     its id; if missing, a new id
type           its type; without it, the type given for all messages
body           bytes or text; if missing, empty
content_type   the media type of the body
location       the location that receives it
context        properties, as a JSON object
parts          attachments, if they are structs; otherwise a property
(any other)    a property; null: the message doesn't have it
=============  ===========================================================================================

An invalid row stops nothing: it is kept, as far as possible, with the reason.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from typing import Any, NamedTuple

import pyarrow as pa

from seriatim.box.publishing import batch as publish
from seriatim.errors import UsageError
from seriatim.pipeline.bodies.json_paths import json_reader
from seriatim.pipeline.bodies.property_values import Unreadable, problem_text, shortened
from seriatim.pipeline.declared.location import checked_location
from seriatim.pipeline.types.box_properties import OWN
from seriatim.pipeline.types.message import Message, Part, Property, new_message_id

#: The columns that aren't properties.
FIELDS = ("message_id", "type", "body", "content_type", "context")
#: The type of a message that has none that can be kept.
UNTYPED = "untyped"
_JSON = json_reader()


@dataclass(frozen=True, slots=True)
class Incoming:
    type: str | None = None
    #: The column with the groups, if the rows go straight into a queue; None: as the queue declares.
    group: str | None = None
    sequence: str | None = None
    left_out: frozenset[str] = field(default_factory=frozenset)

    @property
    def ordered(self) -> bool:
        return self.group is not None


@dataclass(frozen=True, slots=True)
class PartRows:
    """Messages, with the groups and numbers of their rows, if they have them; `problems`: why a row is no message."""

    messages: Sequence[Message]
    groups: Sequence[str | None]
    sequences: Sequence[int | None]
    problems: Sequence[str | None]


def messages_of(rows: pa.RecordBatch, incoming: Incoming, made_up: Callable[[int], str]) -> PartRows:
    """Convert rows to messages. An invalid row also becomes a message, with the fields that can be stored, so that it stops nothing."""
    present = [column for column in rows.schema.names if column not in incoming.left_out]
    wrong: dict[int, dict[str, str]] = {}
    columns = {name: _values(name, rows.column(name), wrong) for name in present}
    own = {incoming.group, incoming.sequence}
    nothing: list[Any] = [None] * len(rows)
    parts = nothing
    if "parts" in columns and pa.types.is_list(rows.schema.field("parts").type):
        parts = columns.pop("parts")
    names = [name for name in columns if name not in FIELDS and name not in own]
    fields = (columns.get(name, nothing) for name in FIELDS)
    values = zip(*(columns[name] for name in names), strict=True) if names else [()] * len(rows)
    messages, problems = [], []
    for place, (*own_fields, properties, each) in enumerate(zip(*fields, values, parts, strict=True)):
        row = _IncomingRow._make((*own_fields, dict(zip(names, properties, strict=True)), each))
        message, troubles = _message(row, incoming, partial(made_up, place), wrong.get(place, {}))
        messages.append(message)
        problem = "; ".join(f"column {name!r}: {why}" for name, why in troubles.items())
        problems.append(problem_text(problem) if troubles else None)
    groups, sequences = columns.get(incoming.group or "", nothing), columns.get(incoming.sequence or "", nothing)
    return PartRows(messages, groups, sequences, problems)


class _IncomingRow(NamedTuple):
    """A row: the values of `FIELDS`, in their order, the others by name, and the parts."""

    message_id: str | None
    type: str | None
    body: bytes | None
    content_type: str | None
    context: str | None
    given: Mapping[str, Any]
    parts: Sequence[Mapping[str, Any] | None] | None


def _values(name: str, column: pa.Array, wrong: dict[int, dict[str, str]]) -> list[Any]:
    """The values of a column; an invalid value is null, and its problem is noted in `wrong`, by place and column."""
    if name == "body":
        column = column.cast(pa.binary())
    try:
        return list(column.to_pylist())
    except (ValueError, ArithmeticError):
        pass  # the values are then checked one at a time
    values = []
    for place, row_values in enumerate(column):
        try:
            values.append(row_values.as_py())
        except UnicodeDecodeError as error:
            wrong.setdefault(place, {})[name] = f"not UTF-8 at byte {error.start}"
            values.append(None)
        except (ValueError, ArithmeticError) as error:
            wrong.setdefault(place, {})[name] = str(error)
            values.append(None)
    return values


def _message(
    row: _IncomingRow, incoming: Incoming, made_up: Callable[[], str], wrong: Mapping[str, str]
) -> tuple[Message, Mapping[str, str]]:
    """The message of a row, and its problems by column; `wrong`: the problems that are known already."""
    if not wrong:
        try:
            return _whole(row, incoming), wrong
        except (UsageError, Unreadable):
            pass
    problems = dict(wrong)
    message_id, kind, content_type = row.message_id or made_up(), row.type or incoming.type, _escaped(row.content_type)
    if why := _refused(message_id=message_id):
        problems["message_id"], message_id = why, made_up()
    if not kind:
        problems.setdefault("type", 'there is none (.option("type", "…") is that of rows without one)')
    elif why := _refused(type=kind):
        problems["type"], kind = why, None
    if why := _refused(message_id=message_id, content_type=content_type):
        problems["content_type"], content_type = why, None
    context = _given(row)
    try:
        context = {**_read(row.context), **context}
    except Unreadable as error:
        problems["context"], context["context"] = str(error), row.context
    properties, left_out = fitting(storable(context))
    if left_out is not None:
        problems["context"] = "; ".join(filter(None, (problems.get("context"), left_out)))
    parts, reasons = _usable(row.parts or ())
    if reasons:
        problems["parts"] = "; ".join(reasons)
    message = Message(
        type=kind or UNTYPED, body=row.body or b"", context=properties, message_id=message_id,
        content_type=content_type, parts=parts,
    )  # fmt: skip
    return _cut(message, problems), problems


def _whole(row: _IncomingRow, incoming: Incoming) -> Message:
    message = Message(
        type=row.type or incoming.type or "",
        body=row.body or b"",
        context={**_read(row.context), **_given(row)},
        message_id=row.message_id or new_message_id(),
        content_type=_escaped(row.content_type),
        parts=[_part(part) for part in row.parts] if row.parts else (),
    )
    publish.check_size(message)
    return message


def _cut(message: Message, problems: dict[str, str]) -> Message:
    """A message without its too large field: its body, or else its parts; the problem is noted in `problems`, by column."""
    most = publish.MOST_BODY_BYTES
    if len(message.body) > most:
        problems["body"] = f"{len(message.body):,} bytes, of which at most {most:,} can be kept: left out"
        message = replace(message, body=b"")
    room, size = most - len(message.body), sum(len(part.body) for part in message.parts)
    if size > room:
        left_out = f"{size:,} bytes, of which at most {room:,} can be kept beside the body: left out"
        problems["parts"] = "; ".join(filter(None, (problems.get("parts"), left_out)))
        message = replace(message, parts=())
    return message


def _refused(**fields: Any) -> str | None:
    """The reason why no message can have these fields; None if a message can."""
    try:
        Message(**{"type": UNTYPED, **fields})
    except UsageError as error:
        return f"{error.what} ({error.remedy})"
    return None


def _given(row: _IncomingRow) -> dict[str, Any]:
    return {name: value for name, value in row.given.items() if value is not None}


def _escaped(content_type: str | None) -> str | None:
    return content_type.replace("\0", "\\0") if content_type is not None and "\0" in content_type else content_type


def _part(part: Mapping[str, Any] | None) -> Part:
    """Convert a part. Raises `UsageError` if it is invalid."""
    if part is None:
        raise UsageError("a part is null", remedy="leave it out")
    body = part["body"]
    return Part(part["name"], part.get("content_type"), body.encode() if isinstance(body, str) else body or b"")


def _usable(parts: Sequence[Mapping[str, Any] | None]) -> tuple[list[Part], list[str]]:
    """The parts that can be stored, and the problems of the others; parts without a usable name get generated names."""
    kept: dict[str, Part] = {}
    reasons = []
    for number, candidate in enumerate(parts, 1):
        if candidate is None:
            reasons.append(f"part {number} is null")
            continue
        try:
            part = _part(candidate)
        except UsageError as error:
            reasons.append(f"part {number}: {error.what} ({error.remedy})")
            part = _part({"name": f"part {number}", "body": candidate["body"]})
        if part.name in kept:
            reasons.append(f"part {number}: another one is named {part.name!r}, too")
            part = replace(part, name=next(name for name in _names(number) if name not in kept))
        kept[part.name] = part
    return list(kept.values()), reasons


def _names(number: int) -> Iterator[str]:
    return (f"part {number}{'+' * more}" for more in count())


def _read(context: str | None) -> dict[str, Property]:
    """The properties of a context. Raises `Unreadable` if it is no JSON object."""
    if context is None:
        return {}
    content = _JSON(context)
    if not isinstance(content, dict):
        shown = "a list" if isinstance(content, list) else shortened(context.strip())
        raise Unreadable(f"{shown} is not a JSON object")
    return content


def storable(context: Mapping[str, Any]) -> dict[str, Property]:
    """The properties of an invalid message, as text that can be stored, whatever they are."""
    return {_text(_name(name, value)): _text(value) for name, value in context.items()}


def fitting(context: Mapping[str, Property]) -> tuple[Mapping[str, Property], str | None]:
    """Properties without the largest ones, if all together can't be stored; and the reason, or None."""
    most = publish.MOST_CONTEXT_BYTES
    # Checked for every row: no character has more than six bytes, and names and values that aren't text are short.
    texts = [value for value in context.values() if type(value) is str]
    if 6 * sum(map(len, texts)) + 2_000 * len(context) <= most:
        return context, None
    sizes = {name: len(json.dumps({name: str(value)}, ensure_ascii=False).encode()) for name, value in context.items()}
    size = left = sum(sizes.values())
    too_large = []
    for name in sorted(sizes, key=lambda name: sizes[name], reverse=True):
        if left <= most:
            break
        left -= sizes[name]
        too_large.append(name)
    if not too_large:
        return context, None
    names = ", ".join(repr(name) for name in too_large)
    why = f"{size:,} bytes of properties, of which at most {most:,} can be kept: left out {names}"
    return {name: value for name, value in context.items() if name not in too_large}, problem_text(why)


def _name(name: str, value: Any) -> str:
    """The name of a property in an invalid message: except for the location, the box's own names have no meaning there."""
    if name not in OWN:
        return name
    try:
        return name if name == "location" and checked_location(value) else f"{name}_"
    except UsageError:
        return f"{name}_"


def _text(value: Any) -> str:
    return str(value).encode(errors="backslashreplace").decode().replace("\0", "\\0")
