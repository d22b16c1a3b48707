"""Attempts whose turns were lost: of a lease that ran out, of a process that was killed, of a transaction that was rolled back.

A killed process writes nothing, but its transaction leaves a mark (``xmax``) on the group, or on the message. That is only a suspicion:
rollbacks, deadlocks and restarts leave the same mark. So the messages come after the others, and are then handed out on trial, one at a
time: a worker commits that it begins with a message before it calls the handler. A process that finds this record later, and no worker,
counts an attempt. Without a mark nothing is written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from seriatim.box.definitions.definition import BoxQueue
from seriatim.box.faults.failure_log import FAILURES
from seriatim.box.faults.faults import Fault, LostTurn, note_lost
from seriatim.kernel.operators.fault import FaultKind

if TYPE_CHECKING:
    from seriatim.box.connection.access import Begin, Transaction

#: Seconds to wait for the lock of an expired lease: a session that has it at this moment is about to commit.
_LEASE_PATIENCE_S = 0.05
#: Seconds to wait for the lock of a group on trial: its holder has found the same, and ends soon.
_PATIENCE_S = 10.0
#: The most messages on trial that a call checks: other groups wait, too.
_MOST = 100


def reap(transaction: Transaction, queue: BoxQueue, apart: Begin) -> int:
    """Revoke the expired leases of a queue, each in a separate transaction, and count the attempts, so that their groups go on."""
    taken = 0
    for lease in transaction.rows("expired_leases", of_queue=queue.queue_id):
        if lease.of_turn:  # the group is looked at again
            with apart() as own:
                taken += own.value(
                    "drop_lease", of_queue=queue.queue_id, of_token=lease.token, expired=True, patience_ms=50
                )
            continue
        lost = LostTurn(queue.declared.name, lease.group_key, lease.entry_id, lease.token, True, lease.attempt)
        taken += _is_noted(apart, lost, _fault_of(lease), _LEASE_PATIENCE_S)
    return taken


def next_trial(transaction: Transaction, queue: BoxQueue, apart: Begin) -> tuple[str | None, int | None] | None:
    """Find the next group, or message, to hand out on trial, after counting attempts that never ended, each in a separate transaction."""
    for _ in range(_MOST):
        row = transaction.one("next_trial", of_queue=queue.queue_id, has_groups=queue.has_groups)
        if row.token is None:
            return None if row.group_key is None and row.entry_id is None else (row.group_key, row.entry_id)
        error = (
            f"{row.worker} began with it, and its turn never ended: its process was killed, or its connection was ended"
        )
        lost = LostTurn(queue.declared.name, row.group_key, row.entry_id, row.token)
        _is_noted(apart, lost, Fault(FaultKind.POISON, "WorkerDied", error, row.worker))
    return None


def count_rollbacks(transaction: Transaction, queue: BoxQueue, apart: Begin) -> int:
    """Put groups on trial whose last transaction was rolled back, for receivers in SQL; return how many had such a mark."""
    marked = transaction.rows("rolled_back_groups", of_queue=queue.queue_id) if queue.has_groups else []
    for group, entry_id in marked:
        if entry_id is not None:
            error = "its transaction was rolled back while it was tried alone"
            fault = Fault(FaultKind.POISON, "RolledBack", error, "SQL")
            _is_noted(apart, LostTurn(queue.declared.name, group, entry_id), fault)
    return len(marked)


def _is_noted(apart: Begin, lost: LostTurn, fault: Fault, patience_s: float = _PATIENCE_S) -> bool:
    """Record an attempt in a separate transaction, and log it; False: its message was done."""
    with apart() as own:
        result = note_lost(own, lost, fault, patience_s)
    if result is not None:
        FAILURES.tell(lost.queue, lost.group, fault, result)
    return result is not None


def _fault_of(lease: Any) -> Fault:
    """The failure that the holder of a lease told, or else that the lease ran out."""
    if lease.told is not None:
        said = lease.told
        return Fault(FaultKind(said["kind"]), "Failed", said["error"], lease.worker, retry_after=said["retry_after_us"])
    error = (
        f"the lease {lease.token} of {lease.worker} ran out: its process is gone or frozen, or couldn't reach the box"
    )
    return Fault(FaultKind.POISON, "LeaseExpired", error, lease.worker)
