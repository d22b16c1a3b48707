"""Bodies that operators have edited. The published bodies stay in the spool."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from seriatim.box.connection.access import Transaction
from seriatim.box.definitions.definition import BoxQueue

__all__ = ["with_edits"]


def with_edits(
    transaction: Transaction, queue: BoxQueue, entry_ids: Sequence[int], rows: Sequence[Any]
) -> Sequence[Any]:
    """Put the edited bodies into rows of messages that are handed out.

    Only failed messages are edited, so nothing is read for messages that are handed out for the first time.
    """
    tried = [entry_id for entry_id, row in zip(entry_ids, rows, strict=True) if row.attempt]
    if not tried:
        return rows
    bodies: dict[int, bytes] = dict(transaction.rows("edited", of_queue=queue.queue_id, of_entries=tried))
    if not bodies:
        return rows
    return [
        row._replace(body=bodies[entry_id]) if entry_id in bodies else row
        for entry_id, row in zip(entry_ids, rows, strict=True)
    ]
