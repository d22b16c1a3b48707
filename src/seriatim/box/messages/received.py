"""Convert rows of the box to received messages, with what operators have edited: the published ones stay in the spool."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any
from uuid import UUID

from seriatim.box.connection.access import Transaction
from seriatim.box.definitions.definition import BoxQueue, Definitions
from seriatim.box.definitions.meaning import Shown
from seriatim.pipeline.types.message import Dialog, Message, Part, Property, Received, Ticket

_READ: Mapping[str, Callable[[Any], Property]] = {
    "decimal": Decimal,
    "double": float,
    "timestamp": datetime.fromisoformat,
}


class _LeftOut(bytes):
    """In place of a body that the transaction has left where it is."""


LEFT_OUT = _LeftOut()

#: Kept: `json.loads` would make one at each call with an option.
_PROPERTIES = json.JSONDecoder(parse_float=Decimal)


def context_of(text: str, types: Mapping[str, str] | None) -> dict[str, Property]:
    """Return the properties as they were published, from JSON; `types` has the types that JSON doesn't have."""
    context: dict[str, Any] = _PROPERTIES.raw_decode(text)[0]
    if types:
        for name, kind in types.items():
            if context.get(name) is not None:
                context[name] = _READ[kind](context[name])
    return context


def stored_message(row: Any, parts: Iterable[Part] = (), body: bytes | None = None) -> Message:
    """The message of a row with its columns; `body`: in place of the stored one."""
    return Message(
        message_id=row.message_id, type=row.type, content_type=row.content_type,
        context=context_of(row.context or "{}", row.property_types), body=row.body if body is None else body, parts=tuple(parts),
    )  # fmt: skip


def parts_of(transaction: Transaction, queue: BoxQueue, entry_ids: Sequence[int]) -> dict[int, tuple[Part, ...]]:
    """The parts of messages, by their entries in a queue; without entries nothing is read."""
    parts: dict[int, tuple[Part, ...]] = {}
    if entry_ids:
        for entry_id, *fields in transaction.rows("parts_of", of_queue=queue.queue_id, of_entries=list(entry_ids)):
            parts[entry_id] = (*parts.get(entry_id, ()), Part(*fields))
    return parts


def received_of(
    row: Any,
    queue: BoxQueue,
    definitions: Definitions,
    *,
    group: str | None,
    sequence: int | None,
    ordinal: int | None,
    late: bool,
    parts: Sequence[Part] = (),
) -> Received:
    """Convert a row with the columns of the function ``handed``, and its parts, to a message."""
    properties, names = context_of(row.context, row.property_types), definitions.names
    message = Received(
        message_id=row.message_id,
        type=row.type,
        content_type=row.content_type,
        dialog=dialog_of(properties, row.type) if "dialog" in properties else None,
        context=properties,
        body=LEFT_OUT if row.body is None else row.body,
        parts=parts,
        received_at=row.received_at,
        ticket=Ticket(row.location, row.epoch, row.number),
        group=group,
        sequence=sequence,
        ordinal=ordinal,
        late=late,
        attempt=row.attempt + 1,
        priority=row.priority,
        replayed=properties.get("link_replayed") is True,
        subscriptions=tuple([names[number] for number in row.subscription_ids if number in names]),
    )
    if queue.means:
        return replace(message, **Shown.of(row.meaning, epochs=queue.declared.says.epoch is not None))
    return message


#: Messages that arrive together belong to the same few dialogs.
_uuid = lru_cache(maxsize=1_000)(UUID)


def dialog_of(context: dict[str, Any], kind: str) -> Dialog | None:
    """Remove the dialog from a message's context and return it; None if the message belongs to no dialog."""
    dialog = context.get("dialog")
    if not isinstance(dialog, dict):
        return None
    del context["dialog"]
    dialog["handle"] = _uuid(dialog["handle"])
    dialog["conversation_id"] = _uuid(dialog["conversation_id"])
    if dialog.get("far_box") is not None:
        dialog["far_box"] = _uuid(dialog["far_box"])
    return Dialog(type=kind, **dialog)


def with_edits(
    transaction: Transaction, queue: BoxQueue, entry_ids: Sequence[int], rows: Sequence[Any]
) -> Sequence[Any]:
    """Put edits into rows that are handed out; if no message was edited, nothing is read."""
    marked = [entry_id for entry_id, row in zip(entry_ids, rows, strict=True) if row.edited]
    if not marked:
        return rows
    edited = {row.entry_id: row for row in transaction.rows("edited", of_queue=queue.queue_id, of_entries=marked)}
    return [
        _edited(row, edited[entry_id]) if entry_id in edited else row
        for entry_id, row in zip(entry_ids, rows, strict=True)
    ]


def _edited(row: Any, edit: Any) -> Any:
    if edit.body is not None:
        row = row._replace(body=edit.body)
    if edit.context is not None:
        row = row._replace(context=edit.context, property_types=edit.property_types)
    return row
