"""Bodies that operators have put in the place of others. What was published stays in the spool as it was."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from seriatim.box.connection.access import Transaction
from seriatim.box.definitions.definition import BoxQueue

__all__ = ["with_edits"]

#: Where a row of the function ``handed`` has the body, and how often the message was handed out.
_BODY, _ATTEMPT = 5, 10


def with_edits(
    transaction: Transaction, queue: BoxQueue, entry_ids: Sequence[int], rows: Sequence[Sequence[Any]]
) -> Sequence[Sequence[Any]]:
    """The rows of messages that are handed out, with the bodies that count.

    Only what failed is edited, so what is handed out for the first time is asked nothing.
    """
    tried = [entry_id for entry_id, row in zip(entry_ids, rows, strict=True) if row[_ATTEMPT]]
    if not tried:
        return rows
    parameters = {"queue_id": queue.queue_id, "entry_ids": tried}
    bodies: dict[int, bytes] = dict(transaction.rows("edited", **parameters))
    if not bodies:
        return rows
    return [
        (*row[:_BODY], bodies.get(entry_id, row[_BODY]), *row[_BODY + 1 :])
        for entry_id, row in zip(entry_ids, rows, strict=True)
    ]
