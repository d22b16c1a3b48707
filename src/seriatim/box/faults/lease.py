"""Leases: committed claims of workers on groups, so that no transaction is open while a handler takes long.

A lease is a row with a fencing token and an end, which its worker postpones regularly. Its messages stay queued, and no
other worker gets the group while the row exists. So removing the row is enough to give the messages back: the worker
does so, its supervisor, an operator, or another receiver after the lease ran out. Only the holder of the token can
complete the messages, under a lock that all of them need. All times are the database's.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from seriatim.box.connection.in_hand import Event
from seriatim.box.definitions.definition import BoxQueue
from seriatim.box.turns.deliveries import DeliveryEnds
from seriatim.box.turns.delivery import Delivery
from seriatim.errors import LeaseLost, UsageError
from seriatim.pipeline.types.message import Received

if TYPE_CHECKING:
    from seriatim.box.connection.access import Access, Transaction

#: How long the removal of a lease waits for a completion that is just committing.
_PATIENCE_MS = 10_000


class HeldLease:
    def __init__(
        self, access: Access, token: int, queue: BoxQueue, delivery: Delivery, size: int, incarnation: int
    ) -> None:
        self.access = access
        #: The fencing token, higher than the token of every earlier lease.
        self.token = token
        self.queue = queue
        self.delivery = delivery
        #: The number of its finished messages, from the first on.
        self.done = 0
        #: Set when the worker knows that the lease was revoked, or ran out.
        self.lost = threading.Event()
        #: Whether the worker itself ends the lease, so that its absence isn't a loss.
        self.is_ending = False
        self._size = size
        self._ends = DeliveryEnds.of_delivery(queue, delivery, incarnation)

    @property
    def left(self) -> int:
        return self._size - self.done

    @property
    def messages(self) -> Sequence[Received]:
        """The messages that aren't done, in order."""
        return self.delivery.messages[self.done : self._size]

    @property
    def at_hand(self) -> int:
        """The entry of the first message that isn't done."""
        return self.delivery.entry_ids[min(self.done, self._size - 1)]

    def error(self) -> LeaseLost:
        where = f"queue {self.queue.declared.name!r}, group {self.delivery.group!r}"
        return LeaseLost(
            f"the lease {self.token} is lost: it ran out, or was taken away",
            where=where,
            remedy="another worker gets the message; give long handlers a longer lease",
        )

    def check(self, transaction: Transaction) -> None:
        """Check that the lease is valid; it may be lost a moment later."""
        if self.lost.is_set() or not transaction.value("is_held", of_queue=self.queue.queue_id, of_token=self.token):
            self.lost.set()
            raise self.error()

    def settle(self, transaction: Transaction, count: int, *, ends: bool) -> None:
        """Complete the next `count` messages, in the transaction."""
        held = {"of_queue": self.queue.queue_id, "of_token": self.token}
        if self.lost.is_set() or not transaction.value("settle_lease", **held, how_many=count, ends=ends):
            self.lost.set()
            raise self.error()
        self.is_ending = ends or count >= self.left
        transaction.do("complete_entries", **self._ends.between(self.done, self.done + count).done())

    def settled(self, count: int) -> None:
        self.done += count

    def take_back(self, transaction: Transaction) -> Delivery:
        """End the lease, and take the remaining messages back, to record their fate in the transaction."""
        if not drop(transaction, self.queue, self.token):
            raise self.error()
        self.is_ending = True
        begin = self.done

        def end_after(count: int) -> None:
            if count:
                transaction.do("complete_entries", **self._ends.between(begin, begin + count).done())
            if self.delivery.group is not None and begin + count < self._size:
                transaction.do("put_back", **self._ends.between(begin + count, self._size).back())

        return Delivery(
            self.delivery.queue, self.delivery.group, self.messages, complete=lambda: end_after(self.left),
            put_back=lambda: end_after(0), end_after=end_after, entry_ids=self.delivery.entry_ids[begin : self._size],
            place=self.access.place,
        )  # fmt: skip


def claim(
    transaction: Transaction, delivery: Delivery, size: int, worker: str, period_us: int, *, is_led: bool = False
) -> HeldLease:
    """Make a lease of the first messages of a delivery, and put the others back; the lease is valid from the commit on."""
    queue = transaction.access.known.definitions.queue(delivery.queue)
    check_leasable(queue, is_led=is_led)
    period = timedelta(microseconds=period_us)
    ends = DeliveryEnds.of_delivery(queue, delivery)
    token, incarnation = transaction.one(
        "claim_lease", of_queue=ends.queue_id, of_group=ends.group, of_entries=ends.entry_ids, ordinals=ends.ordinals,
        lates=ends.lates, how_many=size, of_worker=worker, period=period,
    )  # fmt: skip
    delivery.happens(Event.TAKEN_OVER)  # from here on the lease's end is the delivery's
    delivery.early_ends = None
    return HeldLease(transaction.access, token, queue, delivery, size, incarnation or 0)


def untried(messages: Sequence[Received]) -> int:
    """The number of messages for one turn: a message that failed before gets its own turn."""
    return next(
        (at for at in range(1, len(messages)) if messages[at - 1].attempt > 1 or messages[at].attempt > 1),
        len(messages),
    )


def check_leasable(queue: BoxQueue, *, is_led: bool) -> None:
    """Refuse a queue where handing out a message changes more than the message."""
    if queue.serves or is_led:
        problem = "serves dialogs" if queue.serves else "is led to by starting subscriptions"
        raise UsageError(
            f"a queue that {problem} isn't worked on in leases",
            where=f"queue {queue.declared.name!r}",
            remedy='leave mode="transactional", and hand what takes long to another queue',
        )


def renew(transaction: Transaction, queue: BoxQueue, tokens: Iterable[int], period_us: int) -> frozenset[int]:
    """Renew leases of a queue. Returns the leases that still exist."""
    period = timedelta(microseconds=period_us)
    return frozenset(transaction.value("renew_leases", of_queue=queue.queue_id, tokens=list(tokens), period=period))


def drop(
    transaction: Transaction, queue: BoxQueue, token: int, *, expired: bool = False, patience_ms: int = _PATIENCE_MS
) -> bool:
    """Remove a lease: its messages are queued as before, and this transaction locks their group."""
    parameters = {"of_queue": queue.queue_id, "of_token": token, "expired": expired, "patience_ms": patience_ms}
    return bool(transaction.value("drop_lease", **parameters))


def give_back(transaction: Transaction, queue: str, token: int) -> bool:
    """Remove the lease of a worker that ends: unfinished messages are free when the transaction ends, and no attempt is counted."""
    return drop(transaction, transaction.definitions().queue(queue), token)


def fence(transaction: Transaction, queue: str, group: str, entry_id: int, worker: str) -> int | None:
    """Keep a group from all other turns from the commit on, until `note_lost` counts the present one's attempt, or time runs out."""
    bound = transaction.definitions().queue(queue)
    token = transaction.value(
        "fence_group", of_queue=bound.queue_id, of_group=group, of_entry=entry_id, of_worker=worker,
        period=timedelta(milliseconds=2 * _PATIENCE_MS),
    )  # fmt: skip
    return None if token is None else int(token)


def fence_off(transaction: Transaction, queue: BoxQueue, group: str) -> bool:
    """Take a group from the worker that has it in a lease; the worker can't complete its messages any more. For the owner."""
    row = transaction.maybe("lease_of_group", queue_id=queue.queue_id, group_key=group)
    return row is not None and drop(transaction, queue, row[0])
