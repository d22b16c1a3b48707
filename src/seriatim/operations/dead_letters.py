"""Dead letters for operators: list, requeue, delete. Each action is written to the operator log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta

from seriatim.box.box import MessageBox
from seriatim.box.connection.dsn import place_of
from seriatim.box.operators import dead_letters as letters
from seriatim.box.operators.dead_letters import DeadLetter, DeadLetterFilter, Requeued
from seriatim.box.operators.operator_log import Operator
from seriatim.box.postgres.translate import translated
from seriatim.box.session import Session
from seriatim.errors import UsageError, shown
from seriatim.kernel.requeue import Place
from seriatim.kernel.time import micros
from seriatim.operations.bulk import Refused, put_back

__all__ = ["DeadLetter", "Place", "Requeued", "dead_letters", "delete", "requeue", "requeue_each"]

_MOST = 100_000
#: The most rows deleted in one transaction.
_BATCH = 1_000


def dead_letters(
    box: MessageBox,
    queue: str | None = None,
    *,
    key: str | None = None,
    older_than: float | str | None = None,
    error: str | None = None,
    entry_ids: Sequence[int] | None = None,
    after: int = 0,
    limit: int = 100,
) -> list[DeadLetter]:
    """Dead letters, by their numbers.

    Args:
        box: the box.
        queue: only those of this queue.
        key: only those of groups whose key fits this pattern: ``*`` stands for any text, ``?`` for one character.
        older_than: only those that were set aside longer than this many seconds (or ``"5m"``) ago.
        error: only those whose reason, or the last error of whose handler, has this text in it, in capitals or not.
        entry_ids: only those with these numbers.
        after: only those behind this number: the last one of the call before.
        limit: the most rows.

    Raises:
        UsageError: a limit or a period that can't be.
    """
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= _MOST:
        raise UsageError(f"cannot list {shown(limit)} dead letters", remedy=f"an integer from 1 to {_MOST:,}")
    age = None if older_than is None else timedelta(microseconds=micros(older_than))
    chosen = DeadLetterFilter(entry_ids, queue, key, age, error)
    with box.session() as tx, translated(place_of(box.dsn, box.schema)):
        return letters.dead_letters_of(tx.transaction, chosen, after=after, limit=limit)


def requeue(box: MessageBox, entry_id: int, *, actor: str, reason: str) -> Requeued:
    """Put a dead letter back: to its place in the order if nothing later was delivered, else to the end, with a warning.

    Raises:
        UsageError: there is no such dead letter, or nobody or nothing is named as actor or reason.
        ActionRefused: its group is closed.
        Unavailable: somebody works on its group, and goes on doing so.
    """
    by, chosen = Operator(actor, reason), DeadLetterFilter([entry_id])
    with box.session() as tx, translated(place_of(box.dsn, box.schema)):
        found = letters.dead_letters_of(tx.transaction, chosen)
        done = letters.requeue(tx.transaction, found, by) if found else []
    if not done:
        raise letters.no_dead_letter(entry_id)
    return done[0]


def requeue_each(
    box: MessageBox, found: Iterable[DeadLetter], *, actor: str, reason: str
) -> Iterator[Requeued | Refused]:
    """Put some back: a group after another, each in the order in which its dead letters were released.

    What has been deleted or put back meanwhile is left out. Up to 1,000 dead letters of a group are one transaction; a
    group that can't take them is one `Refused`, and the others go on.

    Raises:
        UsageError: nobody or nothing is named as actor or reason; before anything is done.
    """
    by = Operator(actor, reason)

    def into_group(tx: Session, some: Sequence[DeadLetter]) -> list[Requeued]:
        return letters.requeue(tx.transaction, some, by)

    yield from put_back(box, sorted(found, key=_in_order), "dead letters", into_group)


def delete(box: MessageBox, entry_ids: Sequence[int], *, actor: str, reason: str) -> int:
    """Delete dead letters for good; a message goes with the next clean-up, if no other queue has it. Gives how many.

    Raises:
        UsageError: one is no dead letter, or nobody or nothing is named as actor or reason.
    """
    by, done = Operator(actor, reason), 0
    letters.check_numbers(entry_ids)
    for begin in range(0, len(entry_ids), _BATCH):
        with box.session() as tx, translated(place_of(box.dsn, box.schema)):
            done += letters.delete(tx.transaction, entry_ids[begin : begin + _BATCH], by)
    return done


def _in_order(one: DeadLetter) -> tuple[str, str, bool, int, int]:
    return (one.queue, one.group, one.ordinal is None, one.ordinal or one.sequence or 0, one.entry_id)
