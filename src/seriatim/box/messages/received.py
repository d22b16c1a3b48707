"""Convert rows of the box to received messages."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from seriatim.box.connection.access import Transaction
from seriatim.box.definitions.definition import BoxQueue, Definitions
from seriatim.box.definitions.meaning import Shown
from seriatim.box.messages.dialog import dialog_of
from seriatim.pipeline.types.message import Part, Property, Received, Ticket

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
    for name, kind in (types or {}).items():
        if context.get(name) is not None:
            context[name] = _READ[kind](context[name])
    return context


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
    properties = context_of(row.context, row.property_types)
    return Received(
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
        sequence=None if queue.declared.sequence is None else sequence,
        **(Shown.of(row.meaning, epochs=queue.declared.says.epoch is not None) if queue.means else {}),
        ordinal=ordinal,
        late=late,
        attempt=row.attempt + 1,
        priority=row.priority,
        replayed=properties.get("link_replayed") is True,
        subscriptions=tuple(
            definitions.names[subscription_id]
            for subscription_id in row.subscription_ids
            if subscription_id in definitions.names
        ),
    )
