"""The early ends of a delivery, other than completion and putting it back: messages are postponed or dead-lettered."""

from __future__ import annotations

import os
import socket
from datetime import timedelta
from typing import TYPE_CHECKING

from seriatim.box.faults.faults import Fault, fail
from seriatim.box.faults.postpone import postpone, postponement_us
from seriatim.box.turns.delivery import Delivery
from seriatim.errors import UsageError
from seriatim.kernel.groups.policy import UnitOfWork
from seriatim.kernel.operators.fault import FaultKind

if TYPE_CHECKING:
    from seriatim.box.connection.access import Transaction


class EarlyEnds:
    __slots__ = ("_transaction",)

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    def postponement_us(self, delay: float | str | timedelta) -> int:
        """The delay in microseconds; errors are those of `postponement_us`."""
        return postponement_us(delay)

    def postpone(self, delivery: Delivery, done: int, delay_us: int) -> None:
        """Complete the first `done` messages, and postpone the others."""
        self._is_set(delivery, done)
        postpone(self._transaction, delivery, done, delay_us)

    def dead_letter(self, delivery: Delivery, done: int, reason: str) -> None:
        """Complete the first `done` messages, dead-letter the next one (of a set all), and put the others back."""
        is_set = self._is_set(delivery, done)
        name = f"{socket.gethostname()}:{os.getpid()}"
        fault = Fault(FaultKind.BUSINESS, "DeadLetter", reason, name, is_dead=True)
        fail(self._transaction, delivery, done, len(delivery) - done if is_set else 1, fault)

    def _is_set(self, delivery: Delivery, done: int) -> bool:
        queue = self._transaction.access.known.definitions.queue(delivery.queue)
        is_set = delivery.group is not None and isinstance(queue.declared.policy_of(delivery.group), UnitOfWork)
        if is_set and done:
            raise UsageError(
                f"a set of queue {delivery.queue!r} is done as a whole", remedy="leave out done, or complete all of it"
            )
        return is_set
