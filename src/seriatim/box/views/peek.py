"""Look at the messages of a queue without locks, and without taking any."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from seriatim.box.connection.access import Transaction
from seriatim.box.definitions.definition import Definitions
from seriatim.box.messages.received import parts_of, received_of, with_edits
from seriatim.errors import UsageError, is_whole, shown
from seriatim.pipeline.types.message import Received

_MOST = 1_000_000


@dataclass(frozen=True, slots=True)
class Peeked:
    #: The group's key; None in a queue that is `Unordered`, without a gate.
    group: str | None
    #: ``"arrived"`` (not judged yet), ``"held"``, ``"queued"`` or ``"in_hand"`` (of a pipeline).
    status: str
    #: The earliest time at which it is handed out.
    visible_at: datetime | None
    #: Whether it waits because all subscriptions that collected it are stopped.
    waits: bool
    #: The message; its `attempt` is the number of the next attempt. It has an `ordinal` if it is queued.
    message: Received


def peek(transaction: Transaction, definitions: Definitions, queue: str, group: str | None, limit: int) -> list[Peeked]:
    """List the messages of a queue or a group, by group, in the order of leaving."""
    if not is_whole(limit, 1, _MOST):
        raise UsageError(f"cannot list {shown(limit)} messages", remedy=f"an integer from 1 to {_MOST}")
    bound = definitions.queue(queue)
    keyed = bound.has_groups or bound.numbers
    rows: Sequence[Any] = transaction.rows("peek", queue_id=bound.queue_id, group=group, limit=limit)
    rows = with_edits(transaction, bound, [row.entry_id for row in rows], rows)
    parts = parts_of(transaction, bound, [row.entry_id for row in rows if row.parts])
    return [
        Peeked(
            row.group_key if keyed else None,
            row.status,
            row.visible_at,
            row.waits,
            received_of(
                row,
                bound,
                definitions,
                group=row.group_key if keyed else None,
                sequence=None if bound.declared.sequence is None else row.sequence,
                ordinal=row.ordinal,
                late=row.late,
                parts=parts.get(row.entry_id, ()),
            ),
        )
        for row in rows
    ]
