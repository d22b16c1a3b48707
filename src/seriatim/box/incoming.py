"""Rows of a frame, as Arrow columns, become messages.

=============  ===========================================================================================
message_id     its id; a new one where there is none
type           its type, or else the one that goes for all
body           bytes or text; none: empty
content_type   how the body is to be read
location       where it is received
context        properties, as a JSON object
parts          what it has beside the body, where they are structs; otherwise a property
(any other)    a property; null: the message doesn't have it
=============  ===========================================================================================
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pyarrow as pa

from seriatim.errors import UsageError
from seriatim.pipeline.box_types import OWN
from seriatim.pipeline.message import Message, Part, Property, new_message_id

__all__ = ["FIELDS", "Incoming", "Placed", "messages_of", "storable"]

#: The columns that aren't properties.
FIELDS = ("message_id", "type", "body", "content_type", "context")


@dataclass(frozen=True, slots=True)
class Incoming:
    """How rows become messages.

    Args:
        type: the type of rows that have none.
        group: the column with the groups, where they go straight into a queue; None: the queue's own.
        sequence: the column with their numbers in these.
        left_out: columns that are no properties.
    """

    type: str | None = None
    group: str | None = None
    sequence: str | None = None
    left_out: frozenset[str] = field(default_factory=frozenset)

    @property
    def ordered(self) -> bool:
        """Whether rows bring their groups."""
        return self.group is not None


@dataclass(frozen=True, slots=True)
class Placed:
    """Messages, with the groups and numbers that their rows have, if they bring them."""

    messages: Sequence[Message]
    groups: Sequence[str | None]
    sequences: Sequence[int | None]


def messages_of(rows: pa.RecordBatch, incoming: Incoming) -> Placed:
    """The messages of some rows.

    Raises:
        UsageError: a row that has no type, or a context that isn't JSON; names the message.
    """
    n = len(rows)
    columns = {name: rows.column(name).to_pylist() for name in rows.schema.names if name not in incoming.left_out}
    own = {incoming.group, incoming.sequence}
    parts: Sequence[Sequence[Mapping[str, Any]] | None] = [None] * n
    if "parts" in columns and pa.types.is_list(rows.schema.field("parts").type):
        parts = columns.pop("parts")
    names = [name for name in columns if name not in FIELDS and name not in own]
    nothing: list[Any] = [None] * n
    groups, sequences = columns.get(incoming.group or "", nothing), columns.get(incoming.sequence or "", nothing)
    fields = (columns.get(name, nothing) for name in FIELDS)
    values = zip(*(columns[name] for name in names), strict=True) if names else [()] * n
    messages = [
        _message(
            message_id, kind or incoming.type, body, content_type, context, dict(zip(names, given, strict=True)), each
        )
        for message_id, kind, body, content_type, context, given, each in zip(*fields, values, parts, strict=True)
    ]
    return Placed(messages, groups, sequences)


def _message(
    message_id: str | None,
    kind: str | None,
    body: bytes | str | None,
    content_type: str | None,
    context: str | None,
    given: Mapping[str, Any],
    parts: Sequence[Mapping[str, Any]] | None,
) -> Message:
    message_id = message_id or new_message_id()
    if not kind:
        raise UsageError(f"message {message_id} has no type", remedy='.option("type", "…") is that of rows without one')
    found = {name: value for name, value in given.items() if value is not None}
    if context is not None:
        found = {**_read(context, message_id), **found}
    if content_type is not None and "\0" in content_type:
        content_type = content_type.replace("\0", "\\0")
    return Message(
        type=kind, body=_bytes(body), context=found, message_id=message_id, content_type=content_type,
        parts=[_part(one, message_id) for one in parts] if parts else (),
    )  # fmt: skip


def _bytes(body: bytes | str | None) -> bytes:
    if isinstance(body, bytes):
        return body
    return b"" if body is None else body.encode()


def _part(given: Mapping[str, Any] | None, message_id: str) -> Part:
    if given is None:
        raise UsageError(f"a part of message {message_id} is null", remedy="leave it out")
    try:
        return Part(given["name"], given.get("content_type"), _bytes(given["body"]))
    except UsageError as error:
        raise UsageError(error.what, where=f"message {message_id}", remedy=error.remedy) from error


def _read(context: str, message_id: str) -> dict[str, Property]:
    try:
        found = json.loads(context, parse_float=Decimal)
    except ValueError as error:
        raise UsageError(f"the context of message {message_id} is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise UsageError(f"the context of message {message_id} is no JSON object")
    return found


def storable(context: Mapping[str, Any]) -> dict[str, Property]:
    """The properties of a message at which something is wrong, as text that can be kept, whatever they are."""
    return {_text(f"{name}_" if name in OWN else name): _text(value) for name, value in context.items()}


def _text(value: Any) -> str:
    return str(value).encode(errors="backslashreplace").decode().replace("\0", "\\0")
