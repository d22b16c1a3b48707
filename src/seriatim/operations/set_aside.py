"""Messages set aside (other than dead letters) and unrouted messages, for operators: list, requeue, delete.

Each action is written to the operator log.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from seriatim.box.box import MessageBox
from seriatim.box.connection.access import Transaction
from seriatim.box.operators import set_aside as aside
from seriatim.box.operators.operator_log import Operator
from seriatim.box.operators.set_aside import REQUEUED, SET_ASIDE, ListPlace, PutBack, SetAside, SetAsideFilter
from seriatim.errors import UsageError
from seriatim.kernel.operators.requeue import RequeuePosition
from seriatim.operations.bulk import Refused, put_back
from seriatim.operations.listing import listed

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

#: The most messages deleted in one transaction.
_BATCH = 1_000
_INSTEAD = {
    "invalid": "seriatim messages resubmit routes it again",
    "unrouted": "seriatim unrouted --resubmit routes it again",
    "void": "its number has passed without it; seriatim messages delete removes it",
}


@listed(SetAsideFilter)
def set_aside(transaction: Transaction, chosen: SetAsideFilter) -> list[SetAside]:
    """List messages that were set aside, except dead letters, and unrouted messages, oldest first."""
    definitions = transaction.definitions()
    return aside.set_aside_of(
        transaction, chosen, None if chosen.queue is None else definitions.queue(chosen.queue).queue_id
    )


def requeue_each(box: MessageBox, found: Sequence[SetAside], *, actor: str, reason: str) -> Iterator[PutBack | Refused]:
    """Put late, duplicate or rejected messages back, group by group, each group in order.

    A message whose place the group has passed goes to the end, flagged as late. Other messages are judged as if they
    arrived now; the result has their new status. Messages that were deleted or put back meanwhile are left out. A
    transaction puts back up to 1,000 messages of a group. A group that can't take its messages yields one `Refused`; other
    groups go on.

    Raises:
        UsageError: the actor or the reason is missing, or a message is invalid, unrouted or a void; nothing is done then.
    """
    by = Operator(actor, reason)
    for one in found:
        if one.status not in REQUEUED:
            what = f"cannot requeue message {one.message_id!r}, which is {one.status}"
            raise UsageError(what, remedy=_INSTEAD[one.status])
    yield from put_back(box, sorted(found, key=_in_order), "message", partial(aside.requeue, by=by))


def delete(box: MessageBox, found: Sequence[SetAside], *, actor: str, reason: str) -> int:
    """Delete set-aside messages permanently, and return their number.

    The next clean-up deletes the messages themselves, unless another queue has them. Messages that were deleted or
    resubmitted meanwhile are left out.

    Raises:
        UsageError: the actor or the reason is missing.
    """
    by, done = Operator(actor, reason), 0
    for begin in range(0, len(found), _BATCH):
        with box.access.transaction() as transaction:
            done += aside.delete(transaction, found[begin : begin + _BATCH], by)
    return done


def _in_order(one: SetAside) -> tuple[str, str, int, int]:
    return (str(one.queue), str(one.group), one.sequence or 0, one.entry_id or 0)
