"""Validate the dialog messages of a pipeline's batch, once, before the batch is complete.

An invalid message fails its dialog on both sides. It leaves the batch, with all later messages of its dialog.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from seriatim.box.connection.access import Transaction
from seriatim.box.definitions.definition import BoxQueue
from seriatim.box.dialogs.delivery import why_failed
from seriatim.box.notice import EntriesSetAside
from seriatim.pipeline.types.message_type import MessageType

#: Bodies that are fetched together.
_FETCHED = 500


class _Violation(NamedTuple):
    """The first message of a dialog that doesn't fit its type."""

    sequence: int
    message_id: str
    why: str


def fail_invalid(transaction: Transaction, queue: BoxQueue, batch: int, entry_ids: Sequence[int]) -> frozenset[int]:
    """Fail the dialogs whose messages don't fit their types."""
    kinds = {name: kind for name, kind in transaction.access.known.definitions.types.items() if kind.checks_bodies}
    violations = _violations(transaction, kinds, entry_ids) if kinds else {}
    if not violations:
        return frozenset()
    parameters = {
        "of_queue": queue.queue_id,
        "in_batch": batch,
        "handles": list(violations),
        "message_ids": [violation.message_id for violation in violations.values()],
        "sequences": [violation.sequence for violation in violations.values()],
        "whys": [violation.why for violation in violations.values()],
    }
    set_aside = transaction.value("fail_in_batch", **parameters)
    transaction.notice(EntriesSetAside(set_aside))
    return frozenset(set_aside)


def _violations(
    transaction: Transaction, kinds: Mapping[str, MessageType], entry_ids: Sequence[int]
) -> dict[str, _Violation]:
    """By the handle of a dialog the first invalid message in it."""
    violations: dict[str, _Violation] = {}
    for row in _bodies(transaction, kinds, entry_ids):
        first = violations.get(row.handle)
        if first is not None and first.sequence < row.sequence:
            continue
        if (violation := kinds[row.type].violation(row.body)) is not None:
            why = why_failed(row.sequence, row.type, violation)
            violations[row.handle] = _Violation(row.sequence, row.message_id, why)
    return violations


def _bodies(transaction: Transaction, kinds: Mapping[str, MessageType], entry_ids: Sequence[int]) -> Iterator[Any]:
    """Yield the messages whose bodies have to be checked, in any order, and not all in memory."""
    for rows in transaction.portions("bodies_in_batch", _FETCHED, entry_ids=list(entry_ids), types=list(kinds)):
        yield from rows
