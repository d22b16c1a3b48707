"""Remove leases that ran out and count the attempt, so that their groups go on. Receivers and `tick` do it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seriatim.box.definitions.definition import BoxQueue
from seriatim.box.faults.failure_log import FAILURES
from seriatim.box.faults.faults import Fault, LostTurn, note_lost
from seriatim.box.faults.lease import ExpiredLease, expired_in
from seriatim.kernel.operators.fault import FaultKind

if TYPE_CHECKING:
    from seriatim.box.connection.access import Begin, Transaction

#: A session that has the group at this moment is about to commit.
_PATIENCE_S = 0.05


def reap(transaction: Transaction, queue: BoxQueue, apart: Begin) -> int:
    """Revoke the expired leases of a queue, each in a separate transaction."""
    expired = expired_in(transaction, queue)
    if not expired:
        return 0
    taken = 0
    for lease in expired:
        if lease.is_of_turn:  # the group is looked at again
            with apart() as own:
                taken += own.value(
                    "drop_lease", of_queue=queue.queue_id, of_token=lease.token, expired=True, patience_ms=50
                )
            continue
        fault = _fault_of(lease)
        lost = LostTurn(queue.declared.name, lease.group, lease.entry_id, lease.token, True, lease.attempt)
        with apart() as own:
            result = note_lost(own, lost, fault, _PATIENCE_S)
        if result is not None:
            taken += 1
            FAILURES.tell(lost.queue, lost.group, fault, result)
    return taken


def _fault_of(lease: ExpiredLease) -> Fault:
    """What is counted: what the holder said, or that the lease ran out."""
    if lease.told is not None:
        said = lease.told
        return Fault(FaultKind(said["kind"]), "Failed", said["error"], lease.worker, retry_after=said["retry_after_us"])
    error = (
        f"the lease {lease.token} of {lease.worker} ran out: its process is gone or frozen, or couldn't reach the box"
    )
    return Fault(FaultKind.POISON, "LeaseExpired", error, lease.worker)
