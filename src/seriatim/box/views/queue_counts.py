"""Count the messages of each queue. Reads without locks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from seriatim.box.connection.access import Transaction
from seriatim.box.views.at_work import ready_work


@dataclass(frozen=True, slots=True)
class QueueCounts:
    """The counts of a queue at one moment. A message in a worker's hand is counted with its status from before.

    Args:
        queue: its name.
        policy: how its groups are ordered.
        enabled: whether it hands messages out.
        owner: the pipeline that owns it, if any.
        arrived: messages that aren't judged yet.
        held: messages that wait for other messages, or for an operator.
        queued: messages that are released and not handed out.
        in_hand: messages that the queue's pipeline has in hand.
        late: messages set aside as late; likewise `duplicate`, `invalid`, `rejected` and `dead`.
        oldest: the publishing time of its oldest message; None if it is empty.
        max_messages: the number of messages at which it is full; None: no limit.
        stopped: the number of its groups that are stopped: suspended or faulted.
        waiting_groups: the number of its groups that wait for a missing number.
        standing_holes: how many of these stand still: from the time-out of the hole on, or without one after a minute.
        age_s: the age of its oldest message in seconds, by the database's clock; None if it is empty.
        processes: the number of processes that work on it, by their heartbeats.
        faulted: messages that failed for good and wait for an operator, in a queue where each stops itself alone.
        open_places: of a gate: the number of places that are open, because a message of theirs is on the way to the gate; of all
            groups. None: it is no gate.
        oldest_open: of a gate: the time from which the oldest message of an open place is in the queue where it is.
        void: messages that let their numbers pass and left nothing.
        is_idle: whether it has messages to work on, and nobody is at work.
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
    stopped: int = 0
    waiting_groups: int = 0
    standing_holes: int = 0
    age_s: float | None = None
    processes: int = 0
    faulted: int = 0
    open_places: int | None = None
    oldest_open: datetime | None = None
    void: int = 0
    is_idle: bool = False

    @property
    def is_full(self) -> bool:
        """Whether the queue is full: publishers wait, or are refused."""
        most, there = self.max_messages, self.arrived + self.held + self.queued + self.in_hand + self.faulted
        return most is not None and there >= most


def counts_of(transaction: Transaction, queue: str | None = None) -> list[QueueCounts]:
    idle = {work.queue for work in ready_work(transaction).values() if work.is_left_alone(0)}
    counts = transaction.rows("queue_counts", QueueCounts, queue=queue)
    return [replace(count, is_idle=count.queue in idle) for count in counts]


def released_of(transaction: Transaction) -> dict[str, int]:
    """How many messages the groups of each queue have released until now, by the queue's name; it reads a row of each group."""
    return {row.queue: row.released for row in transaction.rows("released_counts")}
