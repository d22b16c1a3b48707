"""List, requeue and delete set-aside and unrouted messages. For dead letters see `dead_letters.py`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import datetime

from seriatim.box.connection.access import Transaction
from seriatim.box.operators.operator_log import Operator
from seriatim.box.operators.requeue import requeue as put_back
from seriatim.box.views import listing
from seriatim.box.views.listing import Listing, whole
from seriatim.kernel.operators.requeue import RequeuePosition

#: What can be deleted here.
SET_ASIDE = ("late", "duplicate", "invalid", "rejected", "void", "unrouted")
#: What can be put back: the others never were in a group.
REQUEUED = ("late", "duplicate", "rejected")

#: A place in the list of what was set aside: when that was, the message's arrival and position, and the number of its entry, or 0.
ListPlace = tuple[datetime, int, int, int]


@dataclass(frozen=True, slots=True)
class SetAside:
    """A message that a queue has set aside, or an unrouted message.

    Args:
        message_id: its id.
        type: its type.
        queue: the queue's name; None if it is unrouted.
        group: the group's key; None if it has no group.
        status: one of `SET_ASIDE`.
        sequence: its position in its group, as its producer numbered it.
        reason: the reason; None if no subscription matched.
        since: the time when it was set aside, or found to be unrouted.
        received_at: the time when it was published.
        entry_id: the number of its entry in the queue; None if it is unrouted.
        arrival_id: together with `position`, the message's key in the spool.
        position: see `arrival_id`.
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

    @property
    def place(self) -> ListPlace:
        return self.since, self.arrival_id, self.position, self.entry_id or 0


@dataclass(frozen=True, slots=True)
class SetAsideFilter(Listing):
    queue: str | None = listing.queue("messages that this queue has set aside")
    _: KW_ONLY
    group: str | None = listing.group("messages of groups with this key")
    status: str | Iterable[str] | None = listing.choice(
        "messages in this status", SET_ASIDE, "a status of set-aside messages", many=True,
        remedy=f"one of {', '.join(SET_ASIDE)}; what is dead is a dead letter: seriatim dead-letters",
    )  # fmt: skip
    message_type: str | None = listing.text("messages of this type", noun="a message's type", name="type")
    older_than: float | str | None = listing.period("messages set aside longer ago", label="Set aside longer ago than")
    message_ids: Sequence[str] | None = listing.given("Only these messages.")
    after: ListPlace | None = listing.place(
        lambda one: one.place, "after_at", "after_arrival", "after_position", "after_entry",
        reads=(datetime.fromisoformat, whole, whole, whole),
    )  # fmt: skip
    limit: int = listing.limit("messages")


@dataclass(frozen=True, slots=True)
class PutBack:
    """A message that was put back.

    Args:
        operation_id: its number in the operator log.
        message: the message, as it was before.
        place: the place where it went.
        status: its present status: ``"queued"`` or ``"held"``; or a status of set-aside messages, by its queue's rules.
    """

    operation_id: int
    message: SetAside
    place: RequeuePosition
    status: str


def set_aside_of(transaction: Transaction, chosen: SetAsideFilter, queue_id: int | None) -> list[SetAside]:
    """List unrouted and set-aside messages, except dead letters, oldest first; only those of the queue with this number."""
    parameters = chosen.parameters()
    parameters["status"] = parameters["status"] or list(SET_ASIDE)
    return transaction.rows("set_aside", SetAside, **parameters, queue_id=queue_id)


def requeue(transaction: Transaction, found: Sequence[SetAside], by: Operator) -> list[PutBack]:
    """Put messages of one group back, in the transaction. Messages that have changed since they were listed are left out."""
    known = {one.entry_id: one for one in found}
    queue, group = str(found[0].queue), str(found[0].group)
    numbers = [one for one in known if one is not None]
    moved = put_back(transaction, queue, group, numbers, REQUEUED, by)
    return [PutBack(number, known[entry_id], where, status) for number, entry_id, where, status in moved]


def delete(transaction: Transaction, found: Sequence[SetAside], by: Operator) -> int:
    """Delete set-aside messages that haven't changed since they were listed; return their numbers. A clean-up does the rest."""
    entry_ids = [one.entry_id for one in found if one.entry_id is not None]
    unrouted = [(one.arrival_id, one.position) for one in found if one.entry_id is None]
    return len(_deleted(transaction, by, entry_ids, SET_ASIDE, unrouted))


def delete_entries(transaction: Transaction, entry_ids: Sequence[int], disposition: str, by: Operator) -> set[int]:
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
