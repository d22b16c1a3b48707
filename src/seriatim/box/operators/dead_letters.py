"""Dead letters: list, requeue and delete messages that failed permanently."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from seriatim.box.connection.access import Transaction
from seriatim.box.operators.operator_log import Operator
from seriatim.box.operators.requeue import requeue as put_back
from seriatim.box.operators.set_aside import delete_entries
from seriatim.box.views.groups import containing, fitting
from seriatim.errors import UsageError, shown
from seriatim.kernel.outcome import Disposition
from seriatim.kernel.requeue import Place

__all__ = [
    "DeadLetter",
    "DeadLetterFilter",
    "Requeued",
    "check_numbers",
    "dead_letters_of",
    "delete",
    "no_dead_letter",
    "requeue",
]

_DEAD = Disposition.DEAD.word
_LAST_ID = 2**63 - 1
_WARNING = "something later of its group was delivered, or may have been: it goes to the end, flagged as late"


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message that was set aside for good.

    Args:
        entry_id: its number, by which it is put back or deleted.
        queue: the queue's name.
        group: the group's key; empty in a queue that is `Unordered`.
        message_id: its id.
        type: its type.
        sequence: its position in its group, as its producer numbered it.
        ordinal: the one that it was released with; None where it never was.
        attempt: how often it was handed out, as far as the box was told.
        reason: why it was set aside.
        error: what its handler failed at last; None where none did.
        aside_at: when it was set aside.
        received_at: when it was published.
    """

    entry_id: int
    queue: str
    group: str
    message_id: str
    type: str
    sequence: int | None
    ordinal: int | None
    attempt: int
    reason: str
    error: str | None
    aside_at: datetime
    received_at: datetime


@dataclass(frozen=True, slots=True)
class DeadLetterFilter:
    """Which dead letters.

    Args:
        entry_ids: only these.
        queue: only those of this queue.
        key: only those of groups whose key fits this pattern: ``*`` stands for any text, ``?`` for one character.
        older_than: only those that were set aside longer ago.
        error: only those whose reason or error has this text in it.
    """

    entry_ids: Sequence[int] | None = None
    queue: str | None = None
    key: str | None = None
    older_than: timedelta | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Requeued:
    """A dead letter that was put back.

    Args:
        operation_id: its number in the operator log.
        letter: what it was.
        place: where it went.
        warning: what is to be known of that; None where it is back in its place.
    """

    operation_id: int
    letter: DeadLetter
    place: Place
    warning: str | None


def dead_letters_of(
    transaction: Transaction, chosen: DeadLetterFilter, *, after: int = 0, limit: int = 100
) -> list[DeadLetter]:
    """Dead letters by their numbers, at most `limit`, those behind `after`.

    Raises:
        UsageError: one of the filter's numbers can't be.
    """
    if chosen.entry_ids is not None:
        check_numbers(chosen.entry_ids)
    parameters: dict[str, Any] = {
        "entry_ids": None if chosen.entry_ids is None else list(chosen.entry_ids),
        "queue": chosen.queue,
        "pattern": None if chosen.key is None else fitting(chosen.key),
        "older_than": chosen.older_than,
        "text": None if chosen.error is None else containing(chosen.error),
        "after": after,
        "limit": limit,
    }
    return transaction.rows("dead_letters", DeadLetter, **parameters)


def requeue(transaction: Transaction, letters: Sequence[DeadLetter], by: Operator) -> list[Requeued]:
    """Put some of one group back, in the transaction, in the order in which they were released.

    Each goes to its place if nothing later was delivered, else to the end. What is no dead letter any more is left out.

    Raises:
        UsageError: there is no such queue any more.
        ActionRefused: their group is closed.
        Unavailable: somebody works on their group, and goes on doing so.
    """
    known = {one.entry_id: one for one in letters}
    moved = put_back(transaction, letters[0].queue, letters[0].group, list(known), [_DEAD], by)
    return [
        Requeued(number, known[entry_id], where, _WARNING if where is Place.END else None)
        for number, entry_id, where, _ in moved
    ]


def delete(transaction: Transaction, entry_ids: Sequence[int], by: Operator) -> int:
    """Delete some, in the transaction; their messages go with the next clean-up. Gives how many.

    Raises:
        UsageError: one of them is no dead letter; the transaction has to be rolled back.
    """
    deleted = delete_entries(transaction, entry_ids, _DEAD, by)
    if missing := set(entry_ids) - deleted:
        raise no_dead_letter(min(missing))
    return len(deleted)


def no_dead_letter(entry_id: int) -> UsageError:
    """What is raised where there is none with this number."""
    return UsageError(f"there is no dead letter {entry_id}", remedy="see seriatim dead-letters list")


def check_numbers(entry_ids: object) -> None:
    """See that these can be the numbers of dead letters.

    Raises:
        UsageError: they can't.
    """
    if isinstance(entry_ids, str) or not isinstance(entry_ids, Sequence):
        raise UsageError(f"{shown(entry_ids)} is no list of dead letters", remedy="give a list of their numbers")
    for one in entry_ids:
        if isinstance(one, bool) or not isinstance(one, int) or not 0 < one <= _LAST_ID:
            raise UsageError(f"{shown(one)} is not the number of a dead letter", remedy="a whole number from 1")
