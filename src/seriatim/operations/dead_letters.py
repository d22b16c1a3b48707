"""Dead letters for operators: list, requeue, delete. Each action is written to the operator log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta

from seriatim.box.box import MessageBox
from seriatim.box.connection.dsn import place_of
from seriatim.box.operators import dead_letters as letters
from seriatim.box.operators.dead_letters import DeadLetter, DeadLetterFilter, DeadLettersPage, Requeued
from seriatim.box.operators.operator_log import Operator
from seriatim.box.postgres.translate import translated
from seriatim.box.session import Session
from seriatim.box.views.filters import ErrorCount, Narrowed
from seriatim.box.views.message_places import Stored
from seriatim.errors import UsageError, shown
from seriatim.kernel.operators.requeue import RequeuePosition
from seriatim.kernel.values.time import micros
from seriatim.operations.bulk import Refused, put_back
from seriatim.operations.period import When, narrowed

__all__ = [
    "DeadLetter",
    "DeadLettersPage",
    "ErrorCount",
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
    error_class: str | None = None,
    since: When | None = None,
    until: When | None = None,
    properties: Mapping[str, object] | None = None,
    entry_ids: Sequence[int] | None = None,
    after: int = 0,
    limit: int = 100,
) -> list[DeadLetter]:
    """List dead letters, ordered by their numbers.

    Args:
        box: the box.
        queue: only dead letters of this queue.
        key: only groups whose key matches this pattern: ``*`` stands for any text, ``?`` for one character.
        older_than: only dead letters set aside more than this many seconds (or ``"5m"``) ago.
        error: only dead letters with this text in their reason or in the handler's last error; case is ignored.
        error_class: only dead letters whose handlers failed last at an error of this class; where none failed, with this reason.
        since: only dead letters set aside from this moment on: a datetime, ISO text (without a zone: local time), or how long ago it was,
            as seconds or ``"2h"``.
        until: only dead letters set aside before this moment, likewise.
        properties: only messages with these values of properties, by name.
        entry_ids: only dead letters with these numbers.
        after: only dead letters with higher numbers, for paging: the last number of the previous call.
        limit: the largest number of rows.

    Raises:
        UsageError: the limit, the period, the range of time or a property is invalid.
    """
    _check_limit(limit)
    chosen = _filter(
        queue,
        key,
        older_than=older_than,
        error=error,
        error_class=error_class,
        narrowed=narrowed(since, until, properties),
        entry_ids=entry_ids,
    )
    with box.session() as tx, translated(place_of(box.dsn, box.schema)):
        return letters.dead_letters_of(tx.transaction, chosen, after=after, limit=limit)


def page(
    box: MessageBox,
    queue: str | None = None,
    *,
    key: str | None = None,
    older_than: float | str | None = None,
    error: str | None = None,
    error_class: str | None = None,
    since: When | None = None,
    until: When | None = None,
    after: int = 0,
    limit: int = 50,
    seconds: float = 0.4,
) -> DeadLettersPage:
    """A page of dead letters, ordered by their numbers, of a box of any size.

    It reads at most 20,000 dead letters, and none after so many `seconds`; a page may have fewer rows than its limit therefore, and others
    follow. The other arguments and errors are the same as for `dead_letters`; `after`: the `following` of the page before.
    """
    _check_limit(limit)
    chosen = _filter(
        queue, key, older_than=older_than, error=error, error_class=error_class, narrowed=narrowed(since, until)
    )
    with box.session() as tx, translated(place_of(box.dsn, box.schema)):
        return letters.dead_letters_page(tx.transaction, chosen, limit, after=after, seconds=seconds)


def of_message(box: MessageBox, message: Stored) -> list[DeadLetter]:
    """The dead letters that a message is: one for each queue in which it was set aside for good."""
    with box.session() as tx, translated(place_of(box.dsn, box.schema)):
        numbers = letters.numbers_of(tx.transaction, message.message_id, message.id_space, message.received_at)
        return letters.dead_letters_of(tx.transaction, DeadLetterFilter(numbers)) if numbers else []


def dead_letters_by_error(
    box: MessageBox,
    queue: str | None = None,
    *,
    key: str | None = None,
    older_than: float | str | None = None,
    error: str | None = None,
    error_class: str | None = None,
    since: When | None = None,
    until: When | None = None,
    properties: Mapping[str, object] | None = None,
    limit: int = 100,
) -> list[ErrorCount]:
    """Count dead letters by the last error of their handlers, or by the reason if none failed, the most frequent first.

    The arguments and errors are the same as for `dead_letters`.
    """
    _check_limit(limit)
    chosen = _filter(
        queue,
        key,
        older_than=older_than,
        error=error,
        error_class=error_class,
        narrowed=narrowed(since, until, properties),
    )
    with box.session() as tx, translated(place_of(box.dsn, box.schema)):
        return letters.dead_letters_by_error(tx.transaction, chosen, limit=limit)


def requeue(box: MessageBox, entry_id: int, *, actor: str, reason: str) -> Requeued:
    """Put a dead letter back: to its old place if no later message was delivered, otherwise to the end, with a warning.

    Raises:
        UsageError: there is no such dead letter, or the actor or the reason is missing.
        ActionRefused: its group is closed.
        Unavailable: a receiver keeps its group locked.
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
    """Put dead letters back, group by group, in the order in which they were released.

    Dead letters that were deleted or put back meanwhile are left out. A transaction puts back up to 1,000 dead letters of
    a group. A group that can't take them yields one `Refused`; other groups go on.

    Raises:
        UsageError: the actor or the reason is missing; nothing is done then.
    """
    by = Operator(actor, reason)

    def into_group(tx: Session, some: Sequence[DeadLetter]) -> list[Requeued]:
        return letters.requeue(tx.transaction, some, by)

    yield from put_back(box, sorted(found, key=_in_order), "dead letter", into_group)


def delete(box: MessageBox, entry_ids: Sequence[int], *, actor: str, reason: str) -> int:
    """Delete dead letters permanently, and return their number.

    The next clean-up deletes their messages, unless another queue has them.

    Raises:
        UsageError: a number doesn't belong to a dead letter, or the actor or the reason is missing.
    """
    by, done = Operator(actor, reason), 0
    letters.check_numbers(entry_ids)
    for begin in range(0, len(entry_ids), _BATCH):
        with box.session() as tx, translated(place_of(box.dsn, box.schema)):
            done += letters.delete(tx.transaction, entry_ids[begin : begin + _BATCH], by)
    return done


def _check_limit(limit: int) -> None:
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= _MOST:
        raise UsageError(f"cannot list {shown(limit)} dead letters", remedy=f"an integer from 1 to {_MOST:,}")


def _filter(
    queue: str | None, key: str | None, *, older_than: float | str | None, error: str | None, error_class: str | None,
    narrowed: Narrowed,
    entry_ids: Sequence[int] | None = None,
) -> DeadLetterFilter:  # fmt: skip
    age = None if older_than is None else timedelta(microseconds=micros(older_than))
    return DeadLetterFilter(entry_ids, queue, key, age, error, error_class, narrowed)


def _in_order(one: DeadLetter) -> tuple[str, str, bool, int, int]:
    return (one.queue, one.group, one.ordinal is None, one.ordinal or one.sequence or 0, one.entry_id)
