"""Dead letters: list, requeue and delete messages that failed permanently."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import datetime

from seriatim.box.connection.access import Transaction
from seriatim.box.operators.operator_log import Operator
from seriatim.box.operators.requeue import requeue as put_back
from seriatim.box.operators.set_aside import delete_entries
from seriatim.box.views import listing
from seriatim.box.views.listing import Listing, Page, When
from seriatim.errors import NotFound, UsageError, is_whole, shown
from seriatim.kernel.operators.requeue import RequeuePosition
from seriatim.kernel.values.outcome import Disposition

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


def check_numbers(entry_ids: object) -> None:
    if isinstance(entry_ids, str) or not isinstance(entry_ids, Sequence):
        raise UsageError(f"{shown(entry_ids)} is no list of dead letters", remedy="give a list of their numbers")
    for one in entry_ids:
        if not is_whole(one, 1, _LAST_ID):
            raise UsageError(f"{shown(one)} is not the number of a dead letter", remedy="a whole number from 1")


@dataclass(frozen=True, slots=True)
class DeadLetterFilter(Listing):
    queue: str | None = listing.queue("dead letters of this queue")
    _: KW_ONLY
    key: str | None = listing.key("dead letters of groups with a key that matches", label="Group")
    error_class: str | None = listing.error_class(
        "dead letters whose handlers failed last with an error of this class, or where none failed with this reason"
    )
    error: str | None = listing.error("dead letters with this text in their reason or error")
    older_than: float | str | None = listing.period(
        "dead letters set aside longer ago", label="Set aside longer ago than"
    )
    since: When | None = listing.since("dead letters set aside")
    until: When | None = listing.until("dead letters set aside")
    properties: Mapping[str, object] | None = listing.properties("dead letters")
    entry_ids: Sequence[int] | None = listing.given("Only dead letters with these numbers.", check=check_numbers)
    after: int = listing.place(lambda one: one.entry_id, default=0)
    limit: int = listing.limit("dead letters")
    seconds: float = listing.given(
        "A page isn't read for longer than this; it may have fewer rows than its limit therefore.", 0.4
    )


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


def dead_letters_of(transaction: Transaction, chosen: DeadLetterFilter) -> list[DeadLetter]:
    return transaction.rows("dead_letters", DeadLetter, **chosen.parameters(), upto=None)


def dead_letters_page(transaction: Transaction, chosen: DeadLetterFilter) -> Page[DeadLetter, int]:
    """Read dead letters that fit, among the next 20,000, for some seconds at most."""
    parameters, ends = chosen.parameters(), time.monotonic() + chosen.seconds
    found: list[DeadLetter] = []
    after, limit, read, most = chosen.after, chosen.limit, 0, chosen.limit
    while True:
        upto = transaction.maybe("further_dead_letter", after=after, most=most)
        last = None if upto is None else upto.entry_id
        place = {"after": after, "upto": last, "limit": limit - len(found)}
        found += transaction.rows("dead_letters", DeadLetter, **parameters | place)
        if len(found) >= limit:
            return Page(found, found[-1].entry_id, read)
        if last is None:
            return Page(found, None, read)
        after, read = last, read + most
        if read >= _MOST_READ or time.monotonic() >= ends:
            return Page(found, after, read)
        most = min(most * 4, _MOST_READ - read)


def numbers_of(transaction: Transaction, message_id: str, id_space: str, received_at: datetime) -> list[int]:
    """The numbers of the dead letters that a message is, which was published at a moment; one for each queue."""
    parameters = {"message_id": message_id, "id_space": id_space, "received_at": received_at}
    return [row.entry_id for row in transaction.rows("letters_of_message", **parameters)]


def requeue(transaction: Transaction, letters: Sequence[DeadLetter], by: Operator) -> list[Requeued]:
    """Put dead letters of a group back in their order: to the old place if no later message was delivered, else to the end."""
    known = {one.entry_id: one for one in letters}
    moved = put_back(transaction, letters[0].queue, letters[0].group, list(known), [_DEAD], by)
    return [
        Requeued(number, known[entry_id], where, _WARNING if where is RequeuePosition.END else None)
        for number, entry_id, where, _ in moved
    ]


def delete(transaction: Transaction, entry_ids: Sequence[int], by: Operator, *, strict: bool = True) -> int:
    """Delete dead letters, in the transaction, and return their number. The next clean-up deletes their messages."""
    deleted = delete_entries(transaction, entry_ids, _DEAD, by)
    if strict and (missing := set(entry_ids) - deleted):
        raise no_dead_letter(min(missing))
    return len(deleted)


def no_dead_letter(entry_id: int) -> UsageError:
    return NotFound(f"there is no dead letter {entry_id}", remedy="see seriatim dead-letters list")
