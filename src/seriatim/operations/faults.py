"""Faults of handlers, for operators: list and show."""

from __future__ import annotations

from seriatim.box.box import MessageBox
from seriatim.box.connection.access import Transaction
from seriatim.box.views.faults import FaultFilter, FaultView, KeptFaults, count_faults, fault_of, faults_of
from seriatim.box.views.faults import faults_by_error as count_by_error
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
    return count_by_error(transaction, chosen)


def kept_faults(box: MessageBox) -> KeptFaults:
    """The number of recorded faults, the time of the oldest fault, and how long faults are kept."""
    with box.access.transaction() as transaction:
        return count_faults(transaction)


def fault_view(box: MessageBox, fault_id: int) -> FaultView:
    """A fault, by its number.

    Raises:
        UsageError: there is no such fault.
    """
    with box.access.transaction() as transaction:
        return fault_of(transaction, fault_id)
