"""Workers: the processes that work on queues, with what they have in hand; the queues on which nobody works."""

from __future__ import annotations

from seriatim.box.box import MessageBox
from seriatim.box.views.at_work import ReadyWork, ready_work
from seriatim.box.views.workers import WorkerView, WorkView, workers_of

__all__ = ["ReadyWork", "WorkView", "WorkerView", "idle_queues", "workers"]


def workers(box: MessageBox, queue: str | None = None) -> list[WorkerView]:
    """The processes that work on queues, by queue, machine and process, as they were at their last heartbeats.

    Args:
        box: the box.
        queue: only this queue.

    Raises:
        UsageError: there is no such queue.
    """
    with box.access.transaction() as transaction:
        if queue is not None:
            box.access.known.current(transaction).queue(queue)
        return workers_of(transaction, queue)


def idle_queues(box: MessageBox, patience: float = 0.0) -> list[ReadyWork]:
    """The queues that have messages to work on and nobody at work, by name.

    At work is a process with a heartbeat, a receiver that waits, and a holder of a lease or of a group's lock.

    Args:
        box: the box.
        patience: only queues on which nobody has worked for so many seconds.
    """
    with box.access.transaction() as transaction:
        return [one for one in ready_work(transaction).values() if one.is_left_alone(patience)]
