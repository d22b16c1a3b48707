"""Dead letters: list, requeue and delete messages that failed permanently."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from seriatim.box.connection.access import Transaction
from seriatim.box.operators.operator_log import Operator
from seriatim.box.operators.requeue import requeue as put_back
from seriatim.box.operators.set_aside import delete_entries
from seriatim.box.views.filters import ErrorCount, Narrowed
from seriatim.box.views.groups import containing, fitting
from seriatim.errors import NotFound, UsageError, shown
from seriatim.kernel.operators.requeue import RequeuePosition
from seriatim.kernel.values.outcome import Disposition

__all__ = [
    "DeadLetter",
    "DeadLetterFilter",
    "DeadLettersPage",
    "Requeued",
    "check_numbers",
    "dead_letters_by_error",
    "dead_letters_of",
    "dead_letters_page",
    "delete",
    "no_dead_letter",
    "requeue",
]

_DEAD = Disposition.DEAD.word
_LAST_ID = 2**63 - 1
#: A page is looked for among so many.
_MOST_READ = 20_000
_WARNING = "something later of its group was delivered, or may have been: it goes to the end, flagged as late"


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message that failed permanently and was set aside.

    Args:
        entry_id: its number, for `requeue` and `delete`.
        queue: the queue's name.
        group: the group's key; empty in a queue that is `Unordered`.
        message_id: its id.
        type: its type.
        sequence: its position in its group, as its producer numbered it.
        ordinal: its ordinal; None if it was never released.
        attempt: the number of times it was handed out, as far as the box knows.
        reason: the reason why it was set aside.
        error: the last error of its handler; None if no handler failed.
        aside_at: the time when it was set aside.
        received_at: the time when it was published.
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
class DeadLettersPage:
    """A page of dead letters."""

    rows: list[DeadLetter]
    #: How many were read at least where none, or few, fitted.
    read: int
    #: The number after which the next page begins; None: there are no others.
    following: int | None


@dataclass(frozen=True, slots=True)
class DeadLetterFilter:
    """A filter for dead letters."""

    entry_ids: Sequence[int] | None = None
    queue: str | None = None
    #: Only groups whose key matches this pattern: ``*`` stands for any text, ``?`` for one character.
    key: str | None = None
    #: Only dead letters that were set aside longer ago than this.
    older_than: timedelta | None = None
    #: Only dead letters with this text in their reason or error.
    error: str | None = None
    #: Only dead letters whose handlers failed last at an error of this class; where none failed, with this reason.
    error_class: str | None = None
    #: Only dead letters that were set aside at a time in this range, and whose messages have these properties.
    narrowed: Narrowed = field(default_factory=Narrowed)


@dataclass(frozen=True, slots=True)
class Requeued:
    """A dead letter that was put back.

    Args:
        operation_id: its number in the operator log.
        letter: the dead letter, as it was before.
        place: the place where it went.
        warning: a warning about the place; None if it is back in its old place.
    """

    operation_id: int
    letter: DeadLetter
    place: RequeuePosition
    warning: str | None


def dead_letters_of(
    transaction: Transaction, chosen: DeadLetterFilter, *, after: int = 0, limit: int = 100
) -> list[DeadLetter]:
    """List at most `limit` dead letters by number, after `after`."""
    return transaction.rows("dead_letters", DeadLetter, **_parameters(chosen), after=after, upto=None, limit=limit)


def dead_letters_page(
    transaction: Transaction, chosen: DeadLetterFilter, limit: int, *, after: int = 0, seconds: float
) -> DeadLettersPage:
    """Read at most `limit` dead letters that fit, among the next 20,000, for `seconds` at most."""
    parameters, ends = _parameters(chosen), time.monotonic() + seconds
    found: list[DeadLetter] = []
    read, most = 0, max(limit, 1)
    while True:
        upto = transaction.maybe("further_dead_letter", after=after, most=most)
        last = None if upto is None else upto.entry_id
        found += transaction.rows(
            "dead_letters", DeadLetter, **parameters, after=after, upto=last, limit=limit - len(found)
        )
        if len(found) >= limit:
            return DeadLettersPage(found, read, found[-1].entry_id)
        if last is None:
            return DeadLettersPage(found, read, None)
        after, read = last, read + most
        if read >= _MOST_READ or time.monotonic() >= ends:
            return DeadLettersPage(found, read, after)
        most = min(most * 4, _MOST_READ - read)


def numbers_of(transaction: Transaction, message_id: str, id_space: str, received_at: datetime) -> list[int]:
    """The numbers of the dead letters that a message is, which was published at a moment; one for each queue."""
    parameters = {"message_id": message_id, "id_space": id_space, "received_at": received_at}
    return [row.entry_id for row in transaction.rows("letters_of_message", **parameters)]


def dead_letters_by_error(transaction: Transaction, chosen: DeadLetterFilter, *, limit: int = 100) -> list[ErrorCount]:
    """Count dead letters by the last error of their handlers, or by the reason if none failed, the most frequent first."""
    return transaction.rows("dead_letters_by_error", ErrorCount, **_parameters(chosen), limit=limit)


def _parameters(chosen: DeadLetterFilter) -> dict[str, Any]:
    if chosen.entry_ids is not None:
        check_numbers(chosen.entry_ids)
    return {
        "entry_ids": None if chosen.entry_ids is None else list(chosen.entry_ids),
        "queue": chosen.queue,
        "pattern": None if chosen.key is None else fitting(chosen.key),
        "older_than": chosen.older_than,
        "text": None if chosen.error is None else containing(chosen.error),
        "error_class": chosen.error_class,
        **chosen.narrowed.parameters(),
    }


def requeue(transaction: Transaction, letters: Sequence[DeadLetter], by: Operator) -> list[Requeued]:
    """Put dead letters of one group back, in the transaction, in the order in which they were released.

    Each goes to its old place if no later message was delivered, otherwise to the end. Messages that are no
    longer dead letters are left out.
    """
    known = {one.entry_id: one for one in letters}
    moved = put_back(transaction, letters[0].queue, letters[0].group, list(known), [_DEAD], by)
    return [
        Requeued(number, known[entry_id], where, _WARNING if where is RequeuePosition.END else None)
        for number, entry_id, where, _ in moved
    ]


def delete(transaction: Transaction, entry_ids: Sequence[int], by: Operator) -> int:
    """Delete dead letters, in the transaction, and return their number. The next clean-up deletes their messages."""
    deleted = delete_entries(transaction, entry_ids, _DEAD, by)
    if missing := set(entry_ids) - deleted:
        raise no_dead_letter(min(missing))
    return len(deleted)


def no_dead_letter(entry_id: int) -> UsageError:
    """The error for a number that no dead letter has."""
    return NotFound(f"there is no dead letter {entry_id}", remedy="see seriatim dead-letters list")


def check_numbers(entry_ids: object) -> None:
    """Check numbers of dead letters."""
    if isinstance(entry_ids, str) or not isinstance(entry_ids, Sequence):
        raise UsageError(f"{shown(entry_ids)} is no list of dead letters", remedy="give a list of their numbers")
    for one in entry_ids:
        if isinstance(one, bool) or not isinstance(one, int) or not 0 < one <= _LAST_ID:
            raise UsageError(f"{shown(one)} is not the number of a dead letter", remedy="a whole number from 1")
