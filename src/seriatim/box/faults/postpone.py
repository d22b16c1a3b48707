"""Postpone messages: their receiver says "not now", and they are handed out again after a delay, without an attempt.

It is the delay of a retry without a fault: the messages stay first in their group, and the group waits with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from seriatim.box.definitions.definition import BoxQueue
from seriatim.box.turns.delivery import Delivery
from seriatim.errors import UsageError, shown
from seriatim.kernel.fields import LONGEST_DAYS
from seriatim.kernel.groups.policy import UnitOfWork
from seriatim.kernel.values.time import micros

if TYPE_CHECKING:
    from seriatim.box.connection.access import Transaction
import os
import socket
from typing import TYPE_CHECKING

from seriatim.box.faults.faults import Fault, fail
from seriatim.kernel.operators.fault import FaultKind

if TYPE_CHECKING:
    from seriatim.box.connection.access import Transaction

_LONGEST_US = LONGEST_DAYS * 86_400 * 10**6


def postponement_us(delay: float | str | timedelta) -> int:
    delay_us = delay // timedelta(microseconds=1) if isinstance(delay, timedelta) else micros(delay)
    if not 0 <= delay_us <= _LONGEST_US:
        raise UsageError(
            f"a message can't be postponed by {shown(delay)}", remedy=f"from 0 s to {LONGEST_DAYS:,} days, such as 15s"
        )
    return delay_us


def postpone(transaction: Transaction, delivery: Delivery, done: int, delay_us: int, size: int | None = None) -> None:
    """End a delivery: complete its first messages, and postpone the others."""
    entry_ids = delivery.entry_ids[done : None if size is None else done + size]
    queue = transaction.access.known.definitions.queue(delivery.queue)
    delivery.done_through(done)
    hide(transaction, queue, delivery.group, entry_ids, delay_us)


def hide(transaction: Transaction, queue: BoxQueue, group: str | None, entry_ids: Sequence[int], delay_us: int) -> None:
    """Hand messages out again after a delay; they are put back already. In a group the others wait behind the first."""
    if group is not None and not isinstance(queue.declared.policy_of(group), UnitOfWork):
        entry_ids = entry_ids[:1]
    transaction.do(
        "postpone",
        of_queue=queue.queue_id,
        of_group=group,
        of_entries=list(entry_ids),
        delay=timedelta(microseconds=delay_us),
    )


class EarlyEnds:
    __slots__ = ("_transaction",)

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    def postponement_us(self, delay: float | str | timedelta) -> int:
        return postponement_us(delay)

    def postpone(self, delivery: Delivery, done: int, delay_us: int) -> None:
        self.is_set(delivery, done)
        postpone(self._transaction, delivery, done, delay_us)

    def dead_letter(self, delivery: Delivery, done: int, reason: str) -> None:
        is_set = self.is_set(delivery, done)
        name = f"{socket.gethostname()}:{os.getpid()}"
        fault = Fault(FaultKind.BUSINESS, "DeadLetter", reason, name, is_dead=True)
        fail(self._transaction, delivery, done, len(delivery) - done if is_set else 1, fault)

    def is_set(self, delivery: Delivery, done: int) -> bool:
        queue = self._transaction.access.known.definitions.queue(delivery.queue)
        is_set = delivery.group is not None and isinstance(queue.declared.policy_of(delivery.group), UnitOfWork)
        if is_set and done:
            raise UsageError(
                f"a set of queue {delivery.queue!r} is done as a whole", remedy="complete all of it, or none"
            )
        return is_set
