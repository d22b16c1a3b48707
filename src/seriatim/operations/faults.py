"""Faults of handlers, for operators: list and show."""

from __future__ import annotations

from seriatim.box.box import MessageBox
from seriatim.box.connection.access import Transaction
from seriatim.box.views.faults import FaultFilter, FaultView, KeptFaults, fault_of, faults_of
from seriatim.box.views.listing import ErrorCount
from seriatim.kernel.operators.fault import FaultKind
from seriatim.operations.listing import listed

__all__ = [
    "ErrorCount",
    "FaultKind",
    "FaultView",
    "KeptFaults",
    "fault_view",
    "faults",
    "faults_by_error",
    "kept_faults",
]


@listed(FaultFilter)
def faults(transaction: Transaction, chosen: FaultFilter) -> list[FaultView]:
    """List the faults of handlers, newest first."""
    return faults_of(transaction, chosen)


@listed(FaultFilter, without=("before",))
def faults_by_error(transaction: Transaction, chosen: FaultFilter) -> list[ErrorCount]:
    """Count faults by the class of their error, the most frequent first."""
    return transaction.rows("faults_by_error", ErrorCount, **chosen.parameters())


def kept_faults(box: MessageBox) -> KeptFaults:
    """The number of recorded faults, the time of the oldest fault, and how long faults are kept."""
    return box.access.within(lambda transaction: transaction.one("count_faults", KeptFaults))


def fault_view(box: MessageBox, fault_id: int) -> FaultView:
    """A fault, by its number.

    Raises:
        UsageError: there is no such fault.
    """
    return box.access.within(fault_of, fault_id)
