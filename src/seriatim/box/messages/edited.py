"""Bodies and properties that operators have edited. The published ones stay in the spool."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from seriatim.box.connection.access import Transaction
from seriatim.box.definitions.definition import BoxQueue


def with_edits(
    transaction: Transaction, queue: BoxQueue, entry_ids: Sequence[int], rows: Sequence[Any]
) -> Sequence[Any]:
    """Put the edited bodies and properties into rows of messages that are handed out. Only failed messages are edited, so nothing is read
    for messages that are handed out for the first time.
    """
    tried = [entry_id for entry_id, row in zip(entry_ids, rows, strict=True) if row.attempt]
    if not tried:
        return rows
    edited = {
        edited_row.entry_id: edited_row
        for edited_row in transaction.rows("edited", of_queue=queue.queue_id, of_entries=tried)
    }
    if not edited:
        return rows
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
