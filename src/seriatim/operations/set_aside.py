"""Messages set aside (other than dead letters) and unrouted messages, for operators: list, requeue, delete.

Each action is written to the operator log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta

from seriatim.box.box import MessageBox
from seriatim.box.connection.dsn import place_of
from seriatim.box.operators import set_aside as aside
from seriatim.box.operators.operator_log import Operator
from seriatim.box.operators.set_aside import REQUEUED, SET_ASIDE, ListPlace, PutBack, SetAside, SetAsideFilter
from seriatim.box.postgres.translate import translated
from seriatim.box.session import Session
from seriatim.errors import UsageError, shown
from seriatim.kernel.operators.requeue import RequeuePosition
from seriatim.kernel.values.time import micros
from seriatim.operations.bulk import Refused, put_back

__all__ = [
    "REQUEUED",
    "SET_ASIDE",
    "ListPlace",
    "PutBack",
    "Refused",
    "RequeuePosition",
    "SetAside",
    "delete",
    "requeue_each",
    "set_aside",
]

_MOST = 100_000
#: The most messages deleted in one transaction.
_BATCH = 1_000
_INSTEAD = {"invalid": "seriatim messages resubmit", "unrouted": "seriatim unrouted --resubmit"}


def set_aside(
    box: MessageBox,
    queue: str | None = None,
    *,
    group: str | None = None,
    status: str | Iterable[str] | None = None,
    message_type: str | None = None,
    older_than: float | str | None = None,
    message_ids: Sequence[str] | None = None,
    after: ListPlace | None = None,
    limit: int = 100,
) -> list[SetAside]:
    """List messages that were set aside, except dead letters, and unrouted messages, oldest first.

    Args:
        box: the box.
        queue: only messages of this queue.
        group: only messages of groups with this key.
        status: only messages with this status, or one of these: ``late``, ``duplicate``, ``invalid``, ``rejected``, ``unrouted``.
        message_type: only messages of this type.
        older_than: only messages set aside, or found to be unrouted, more than this many seconds (or ``"5m"``) ago.
        message_ids: only these messages.
        after: only messages after this `place`, for paging: that of the last row of the previous call.
        limit: the largest number of rows.

    Raises:
        UsageError: there is no such queue or status, or the limit or the period is invalid.
    """
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= _MOST:
        raise UsageError(f"cannot list {shown(limit)} messages", remedy=f"an integer from 1 to {_MOST:,}")
    statuses = [status] if isinstance(status, str) else list(status or SET_ASIDE)
    for one in statuses:
        if one not in SET_ASIDE:
            remedy = f"one of {', '.join(SET_ASIDE)}; what is dead is a dead letter: seriatim dead-letters"
            raise UsageError(f"cannot list messages with the status {shown(one)} here", remedy=remedy)
    age = None if older_than is None else timedelta(microseconds=micros(older_than))
    queue_id = None if queue is None else box.definitions().queue(queue).queue_id
    chosen = SetAsideFilter(statuses, queue_id, group, message_type, age, message_ids)
    with box.session() as tx, translated(place_of(box.dsn, box.schema)):
        return aside.set_aside_of(tx.transaction, chosen, after=after, limit=limit)


def requeue_each(box: MessageBox, found: Sequence[SetAside], *, actor: str, reason: str) -> Iterator[PutBack | Refused]:
    """Put late, duplicate or rejected messages back, group by group, each group in order.

    A message whose place the group has passed goes to the end, flagged as late. Other messages are judged as if they
    arrived now; the result has their new status. Messages that were deleted or put back meanwhile are left out. A
    transaction puts back up to 1,000 messages of a group. A group that can't take its messages yields one `Refused`; other
    groups go on.

    Raises:
        UsageError: the actor or the reason is missing, or a message is invalid or unrouted; nothing is done then.
    """
    by = Operator(actor, reason)
    for one in found:
        if one.status not in REQUEUED:
            remedy = f"{_INSTEAD[one.status]} routes it again"
            raise UsageError(f"cannot requeue message {one.message_id!r}, which is {one.status}", remedy=remedy)

    def into_group(tx: Session, some: Sequence[SetAside]) -> list[PutBack]:
        return aside.requeue(tx.transaction, some, by)

    yield from put_back(box, sorted(found, key=_in_order), "message", into_group)


def delete(box: MessageBox, found: Sequence[SetAside], *, actor: str, reason: str) -> int:
    """Delete set-aside messages permanently, and return their number.

    The next clean-up deletes the messages themselves, unless another queue has them. Messages that were deleted or
    resubmitted meanwhile are left out.

    Raises:
        UsageError: the actor or the reason is missing.
    """
    by, done = Operator(actor, reason), 0
    for begin in range(0, len(found), _BATCH):
        with box.session() as tx, translated(place_of(box.dsn, box.schema)):
            done += aside.delete(tx.transaction, found[begin : begin + _BATCH], by)
    return done


def _in_order(one: SetAside) -> tuple[str, str, int, int]:
    return (str(one.queue), str(one.group), one.sequence or 0, one.entry_id or 0)
