"""Trials: messages of a rolled-back transaction come after the others, and are then handed out one at a time.

A killed process writes nothing, but its transaction leaves a mark (``xmax``) on the group, or on the message. That is only a suspicion:
rollbacks, deadlocks and restarts leave the same mark. So a worker commits that it begins with a message on trial before it calls the
handler. A process that finds this record later, and no worker, counts an attempt. Without a mark nothing is written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from seriatim.box.definitions.definition import BoxQueue
from seriatim.box.faults.failure_log import FAILURES
from seriatim.box.faults.faults import Fault, LostTurn, note_lost
from seriatim.kernel.operators.fault import FaultKind

if TYPE_CHECKING:
    from seriatim.box.connection.access import Begin, Transaction

#: The present holder of the group has found the same, and ends soon.
_PATIENCE_S = 10.0
#: The most of them that a call checks: other groups wait, too.
_MOST = 100


def next_trial(transaction: Transaction, queue: BoxQueue, apart: Begin) -> tuple[str | None, int | None] | None:
    """Find the next group, or message, to hand out on trial, after counting attempts that never ended, each in a separate transaction."""
    for _ in range(_MOST):
        row = transaction.one("next_trial", of_queue=queue.queue_id, has_groups=queue.has_groups)
        if row.token is None:
            return None if row.group_key is None and row.entry_id is None else (row.group_key, row.entry_id)
        error = (
            f"{row.worker} began with it, and its turn never ended: its process was killed, or its connection was ended"
        )
        fault = Fault(FaultKind.POISON, "WorkerDied", error, row.worker)
        lost = LostTurn(queue.declared.name, row.group_key, row.entry_id, row.token)
        with apart() as own:
            result = note_lost(own, lost, fault, _PATIENCE_S)
        if result is not None:
            FAILURES.tell(lost.queue, lost.group, fault, result)
    return None


def count_rollbacks(transaction: Transaction, queue: BoxQueue, apart: Begin) -> int:
    """Put groups on trial whose last transaction was rolled back, for receivers that don't: those in SQL. A message that was on trial alone
    when that happened has failed once. Return how many groups had such a mark.
    """
    marked = transaction.rows("rolled_back_groups", of_queue=queue.queue_id) if queue.has_groups else []
    for group, entry_id in marked:
        if entry_id is None:
            continue
        fault = Fault(FaultKind.POISON, "RolledBack", "its transaction was rolled back while it was tried alone", "SQL")
        with apart() as own:
            result = note_lost(own, LostTurn(queue.declared.name, group, entry_id), fault, _PATIENCE_S)
        if result is not None:
            FAILURES.tell(queue.declared.name, group, fault, result)
    return len(marked)
