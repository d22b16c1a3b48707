"""Count the messages of each queue. Reads without locks."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from seriatim.box.connection.access import Transaction

__all__ = ["QueueCounts", "counts_of"]


@dataclass(frozen=True, slots=True)
class QueueCounts:
    """A queue at one moment. What is in the hands of a worker is counted as it was before.

    Args:
        queue: its name.
        policy: how its groups are ordered.
        enabled: whether it hands out.
        owner: the pipeline that it belongs to.
        arrived: messages that nobody has judged yet.
        held: messages that wait for others, or for an operator.
        queued: messages that are released and not handed out.
        in_hand: messages that the queue's pipeline has in its hands.
        late: set aside as late; likewise `duplicate`, `invalid`, `rejected` and `dead`.
        oldest: when the one was published that has been there longest; None where it is empty.
        max_messages: with so many it is full; None: there is no limit.
    """

    queue: str
    policy: str
    enabled: bool
    owner: str | None
    arrived: int
    held: int
    queued: int
    in_hand: int
    late: int
    duplicate: int
    invalid: int
    rejected: int
    dead: int
    oldest: datetime | None
    max_messages: int | None

    @property
    def is_full(self) -> bool:
        """Whether it has as many messages as it may; publishers wait, or are refused."""
        most, there = self.max_messages, self.arrived + self.held + self.queued + self.in_hand
        return most is not None and there >= most


def counts_of(transaction: Transaction, queue: str | None = None) -> list[QueueCounts]:
    """The queues by name, or the one."""
    return transaction.rows("queue_counts", QueueCounts, queue=queue)
