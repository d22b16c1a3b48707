"""Dead letters for operators: list, requeue, delete. Each action is written to the operator log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from seriatim.box.box import MessageBox
from seriatim.box.connection.access import Transaction
from seriatim.box.operators import dead_letters as letters
from seriatim.box.operators.dead_letters import DeadLetter, DeadLetterFilter, Requeued
from seriatim.box.operators.operator_log import Operator
from seriatim.box.views.listing import ErrorCount, Page
from seriatim.box.views.message_places import Stored
from seriatim.kernel.operators.requeue import RequeuePosition
from seriatim.operations.bulk import Refused, put_back
from seriatim.operations.listing import listed

__all__ = [
    "DeadLetter",
    "ErrorCount",
    "Page",
    "RequeuePosition",
    "Requeued",
    "dead_letters",
    "dead_letters_by_error",
    "delete",
    "of_message",
    "page",
    "requeue",
    "requeue_each",
]

#: The most rows deleted in one transaction.
_BATCH = 1_000


@listed(DeadLetterFilter, without=("seconds",))
def dead_letters(transaction: Transaction, chosen: DeadLetterFilter) -> list[DeadLetter]:
    """List dead letters, ordered by number."""
    return letters.dead_letters_of(transaction, chosen)


@listed(DeadLetterFilter, limit=50)
def page(transaction: Transaction, chosen: DeadLetterFilter) -> Page[DeadLetter, int]:
    """A page of dead letters, ordered by number, of a box of any size.

    It reads at most 20,000 dead letters, and none after some seconds; others follow. `after`: the `following` of the page before.
    """
    return letters.dead_letters_page(transaction, chosen)


@listed(DeadLetterFilter, without=("after", "seconds"))
def dead_letters_by_error(transaction: Transaction, chosen: DeadLetterFilter) -> list[ErrorCount]:
    """Count dead letters by the last error of their handlers, or by the reason if none failed, the most frequent first."""
    return transaction.rows("dead_letters_by_error", ErrorCount, **chosen.parameters())


def of_message(box: MessageBox, message: Stored) -> list[DeadLetter]:
    """The dead letters that a message is: one for each queue in which it was set aside for good."""
    with box.access.transaction() as transaction:
        numbers = letters.numbers_of(transaction, message.message_id, message.id_space, message.received_at)
        return letters.dead_letters_of(transaction, DeadLetterFilter(entry_ids=numbers)) if numbers else []


def requeue(box: MessageBox, entry_id: int, *, actor: str, reason: str) -> Requeued:
    """Put a dead letter back: to its old place if no later message was delivered, otherwise to the end, with a warning.

    Raises:
        UsageError: there is no such dead letter, or the actor or the reason is missing.
        ActionRefused: its group is closed.
        Unavailable: a receiver keeps its group locked.
    """
    by, chosen = Operator(actor, reason), DeadLetterFilter(entry_ids=[entry_id])
    with box.access.transaction() as transaction:
        found = letters.dead_letters_of(transaction, chosen)
        done = letters.requeue(transaction, found, by) if found else []
    if not done:
        raise letters.no_dead_letter(entry_id)
    return done[0]


def requeue_each(
    box: MessageBox, found: Iterable[DeadLetter], *, actor: str, reason: str
) -> Iterator[Requeued | Refused]:
    """Put dead letters back, group by group, in the order in which they were released.

    Dead letters that were deleted or put back meanwhile are left out. A transaction puts back up to 1,000 dead letters of
    a group. A group that can't take them yields one `Refused`; other groups go on.

    Raises:
        UsageError: the actor or the reason is missing; nothing is done then.
    """
    by = Operator(actor, reason)
    yield from put_back(box, sorted(found, key=_in_order), "dead letter", partial(letters.requeue, by=by))


def delete(box: MessageBox, entry_ids: Sequence[int], *, actor: str, reason: str, strict: bool = True) -> int:
    """Delete dead letters permanently, and return their number.

    The next clean-up deletes their messages, unless another queue has them. `strict=False`: numbers that don't belong to a
    dead letter, such as those of letters that were put back meanwhile, are left out.

    Raises:
        UsageError: a number doesn't belong to a dead letter (if `strict`), or the actor or the reason is missing.
    """
    by, done = Operator(actor, reason), 0
    letters.check_numbers(entry_ids)
    for begin in range(0, len(entry_ids), _BATCH):
        with box.access.transaction() as transaction:
            done += letters.delete(transaction, entry_ids[begin : begin + _BATCH], by, strict=strict)
    return done


def _in_order(one: DeadLetter) -> tuple[str, str, bool, int, int]:
    return (one.queue, one.group, one.ordinal is None, one.ordinal or one.sequence or 0, one.entry_id)
