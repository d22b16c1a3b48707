"""Workers: the processes that work on queues, with what they have in hand; the queues on which nobody works."""

from __future__ import annotations

from seriatim.box.box import MessageBox
from seriatim.box.connection.access import Transaction
from seriatim.box.views.at_work import ReadyWork, ready_work
from seriatim.box.views.workers import JudgeView, WorkerFilter, WorkerView, WorkView, workers_of
from seriatim.operations.listing import listed

__all__ = ["JudgeView", "ReadyWork", "WorkView", "WorkerView", "idle_queues", "judges", "workers"]


@listed(WorkerFilter)
def workers(transaction: Transaction, chosen: WorkerFilter) -> list[WorkerView]:
    """List the processes that work on queues: where, since when, with what in hand, and when they were last seen.

    Each process tells of itself every 5 seconds. One that is silent for longer is frozen or dead, or its machine is cut
    off; an hour later it is forgotten.
    """
    return workers_of(transaction, chosen)


def judges(box: MessageBox) -> list[JudgeView]:
    """The processes that judge for receivers in SQL: those of ``seriatim serve``, and workers whose role may route."""
    return box.access.within(lambda transaction: transaction.rows("judges_here", JudgeView))


def idle_queues(box: MessageBox, patience: float = 0.0) -> list[ReadyWork]:
    """The queues that have messages to work on and nobody at work, by name.

    At work is a process with a heartbeat, a receiver that waits, and a holder of a lease or of a group's lock.

    Args:
        box: the box.
        patience: only queues on which nobody has worked for so many seconds.
    """
    with box.access.transaction() as transaction:
        return [one for one in ready_work(transaction).values() if one.is_left_alone(patience)]
