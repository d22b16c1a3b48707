"""List, requeue and delete set-aside and unrouted messages. For dead letters see `dead_letters.py`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from seriatim.box.connection.access import Transaction
from seriatim.box.operators.operator_log import Operator
from seriatim.box.operators.requeue import requeue as put_back
from seriatim.kernel.requeue import Place

__all__ = [
    "REQUEUED",
    "SET_ASIDE",
    "PutBack",
    "SetAside",
    "SetAsideFilter",
    "delete",
    "delete_entries",
    "requeue",
    "set_aside_of",
]

#: What can be deleted here.
SET_ASIDE = ("late", "duplicate", "invalid", "rejected", "unrouted")
#: What can be put back: the others never were in a group.
REQUEUED = ("late", "duplicate", "rejected")


@dataclass(frozen=True, slots=True)
class SetAside:
    """A message that a queue has set aside, or that is unrouted.

    Args:
        message_id: its id.
        type: its type.
        queue: the queue's name; None where it is unrouted.
        group: the group's key; None where it has none.
        status: one of `SET_ASIDE`.
        sequence: its position in its group, as its producer numbered it.
        reason: why; None where nobody wanted it.
        since: when it was set aside, or found to be unrouted.
        received_at: when it was published.
        entry_id: the number of its entry in the queue; None where it is unrouted.
        arrival_id: where the box has the message.
        position: the same.
    """

    message_id: str
    type: str
    queue: str | None
    group: str | None
    status: str
    sequence: int | None
    reason: str | None
    since: datetime
    received_at: datetime
    entry_id: int | None
    arrival_id: int
    position: int


@dataclass(frozen=True, slots=True)
class SetAsideFilter:
    """Which of them.

    Args:
        statuses: only those in one of these, of `SET_ASIDE`.
        queue_id: only those of this queue.
        group: only those of groups with this key.
        message_type: only those of this type.
        older_than: only those that were set aside, or found to be unrouted, longer ago.
        message_ids: only these messages.
    """

    statuses: Sequence[str] = SET_ASIDE
    queue_id: int | None = None
    group: str | None = None
    message_type: str | None = None
    older_than: timedelta | None = None
    message_ids: Sequence[str] | None = None


@dataclass(frozen=True, slots=True)
class PutBack:
    """A message that was put back.

    Args:
        operation_id: its number in the operator log.
        message: what it was.
        place: where it went.
        status: what it is now: ``"queued"`` or ``"held"``; or set aside once more, by the rules of its queue.
    """

    operation_id: int
    message: SetAside
    place: Place
    status: str


def set_aside_of(transaction: Transaction, chosen: SetAsideFilter, *, limit: int = 100) -> list[SetAside]:
    """What was set aside and is no dead letter, and what is unrouted, the oldest first, at most `limit`."""
    parameters: dict[str, Any] = {
        "statuses": list(chosen.statuses),
        "queue_id": chosen.queue_id,
        "group": chosen.group,
        "type": chosen.message_type,
        "older_than": chosen.older_than,
        "message_ids": None if chosen.message_ids is None else list(chosen.message_ids),
        "limit": limit,
    }
    return transaction.rows("set_aside", SetAside, **parameters)


def requeue(transaction: Transaction, found: Sequence[SetAside], by: Operator) -> list[PutBack]:
    """Put some of one group back, in the transaction.

    What isn't there any more as it was found is left out.

    Raises:
        UsageError: there is no such queue any more.
        ActionRefused: their group is closed.
        Unavailable: somebody works on their group, and goes on doing so.
    """
    known = {one.entry_id: one for one in found}
    queue, group = str(found[0].queue), str(found[0].group)
    numbers = [one for one in known if one is not None]
    moved = put_back(transaction, queue, group, numbers, REQUEUED, by)
    return [PutBack(number, known[entry_id], where, status) for number, entry_id, where, status in moved]


def delete(transaction: Transaction, found: Sequence[SetAside], by: Operator) -> int:
    """Delete some, in the transaction; their messages go with the next clean-up.

    What isn't there any more as it was found is left out. Gives how many were deleted.
    """
    entry_ids = [one.entry_id for one in found if one.entry_id is not None]
    unrouted = [(one.arrival_id, one.position) for one in found if one.entry_id is None]
    return len(_deleted(transaction, by, entry_ids, SET_ASIDE, unrouted))


def delete_entries(transaction: Transaction, entry_ids: Sequence[int], disposition: str, by: Operator) -> set[int]:
    """Delete those of these entries that were set aside with this disposition; gives their numbers."""
    return {one for one in _deleted(transaction, by, entry_ids, (disposition,), ()) if one is not None}


def _deleted(
    transaction: Transaction,
    by: Operator,
    entry_ids: Sequence[int],
    dispositions: Sequence[str],
    unrouted: Sequence[tuple[int, int]],
) -> list[int | None]:
    parameters = {
        "entry_ids": list(entry_ids),
        "dispositions": list(dispositions),
        "arrival_ids": [arrival_id for arrival_id, _ in unrouted],
        "positions": [position for _, position in unrouted],
        "actor": by.actor,
        "reason": by.reason,
    }
    return [one for (one,) in transaction.rows("delete_set_aside", **parameters)]
