"""Copies of messages that came to two regions, in the box of one: they are in leases, and the journal decides which of them are over.

A group's next number is raised here by the journal's answers; nothing else skips numbers in such a queue.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from seriatim.box.connection.access import Transaction
from seriatim.box.definitions.definition import BoxQueue
from seriatim.box.faults.faults import Fault, fail
from seriatim.box.faults.lease import HeldLease
from seriatim.box.turns.turns import Turns
from seriatim.errors import LeaseLost
from seriatim.kernel.groups.policy import Standard
from seriatim.kernel.groups.state import State
from seriatim.kernel.operators.actions import skip_holes
from seriatim.kernel.operators.fault import FaultKind
from seriatim.kernel.resequence import Outcome
from seriatim.kernel.values.columns import empty_ints
from seriatim.pipeline.types.message import Received


@dataclass(frozen=True, slots=True)
class CopyEnd:
    lease: HeldLease
    #: The number of its copies that are completed, from the first on.
    done: int
    #: The delay after which the others are handed out again, microseconds; 0: at once.
    delay_us: int = 0
    #: The number through which all of the session is over; None: nothing new is known.
    through: int | None = None


@dataclass(frozen=True, slots=True)
class WaitingCopy:
    """The first message behind a hole."""

    group: str
    next_number: int
    number: int
    message_id: str
    digest: bytes
    #: Its time in the box, microseconds.
    age: int
    #: Through which number the session is over, as far as the box has heard; None: it has heard nothing.
    over: int | None


def end(transaction: Transaction, queue: BoxQueue, ends: Sequence[CopyEnd]) -> int:
    """End leases of copies, in two statements for any number of them."""
    note_over(
        transaction, queue, {end.lease.delivery.group or "": end.through for end in ends if end.through is not None}
    )
    if not ends:
        return 0
    ended = transaction.value(
        "end_copies", of_queue=queue.queue_id, tokens=[end.lease.token for end in ends], dones=[end.done for end in ends],
        delays=[end.delay_us for end in ends], keep=queue.declared.keeps,
    )  # fmt: skip
    return len(ended)


def set_aside(transaction: Transaction, of: CopyEnd, reason: str, worker: str, *, what: Fault | None = None) -> bool:
    """End a lease: its first copies are completed, the next one becomes a dead letter, and its group goes on in this box."""
    lease = of.lease
    note_over(transaction, lease.queue, {lease.delivery.group or "": of.through} if of.through is not None else {})
    try:
        delivery = lease.take_back(transaction)
    except LeaseLost:
        return False
    fail(
        transaction, delivery, of.done, 1, what or Fault(FaultKind.BUSINESS, "DeadLetter", reason, worker, is_dead=True)
    )
    return True


def known(
    transaction: Transaction, queue: BoxQueue, messages: Sequence[Received]
) -> list[tuple[int | None, int | None, str | None]]:
    """Return the box's knowledge of messages, in their order: what is over, their age, and the former id of a withdrawn one."""
    rows = transaction.rows(
        "copies_known", of_queue=queue.queue_id, of_groups=[message.group or "" for message in messages],
        of_numbers=[message.sequence or 0 for message in messages], of_messages=[message.message_id for message in messages],
    )  # fmt: skip
    return [(row.through, row.age, row.withdrawn) for row in rows]


def note_over(transaction: Transaction, queue: BoxQueue, throughs: Mapping[str, int]) -> None:
    if throughs:
        transaction.do("note_over", of_queue=queue.queue_id, of_groups=list(throughs), throughs=list(throughs.values()))


def behind_holes(transaction: Transaction, queue: BoxQueue, after: str, most: int) -> list[WaitingCopy]:
    """The groups that wait for a missing number, in the order of their keys."""
    rows = transaction.rows("copies_behind_holes", of_queue=queue.queue_id, after_group=after, how_many=most)
    return [WaitingCopy(*row) for row in rows]


def raise_next(transaction: Transaction, queue: BoxQueue, throughs: Mapping[str, int]) -> int:
    """Go on behind numbers that are over in the journal. Groups that a worker has are left out."""
    policy = queue.declared.policy
    if not throughs or not isinstance(policy, Standard):
        return 0
    note_over(transaction, queue, throughs)
    turns = Turns(transaction)
    locked = turns.lock_copies(queue, sorted(throughs))
    if not locked.keys:
        return 0
    done = turns.act_each(
        queue, locked, {key: partial(_behind, policy, locked.now_us, key, throughs[key]) for key in locked.keys},
        noticed=(),
    )  # fmt: skip
    transaction.do("call_for_copies", of_queue=queue.queue_id, how_many=len(done))
    return len(done)


def _behind(policy: Standard, now: int, group: str, through: int, state: State) -> Outcome:
    return skip_holes(policy, state, now, group, through, empty_ints(0))
