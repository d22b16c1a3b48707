"""List the recorded faults of handlers. Reads without locks."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from seriatim.box.connection.access import Transaction
from seriatim.box.views.groups import containing, fitting
from seriatim.errors import UsageError, shown

__all__ = ["FaultFilter", "FaultView", "KeptFaults", "count_faults", "fault_of", "faults_of"]


@dataclass(frozen=True, slots=True)
class FaultView:
    """A handler's failure.

    Args:
        fault_id: its number.
        queue: the queue's name; None where the queue is gone.
        group: the group's key; empty in a queue that is `Unordered`.
        message_id: at which message.
        type: the message's type.
        sequence: the message's position in its group, as its producer numbered it.
        ordinal: its position among what leaves the group.
        attempt: which attempt it was, from 1.
        kind: ``transient``, ``business``, ``poison`` or ``timeout``.
        error_class: the name of the error's class.
        error: what it said.
        traceback: where it came from; may be empty.
        at: when.
        worker: whose handler it was.
        retry_at: when it is tried again by itself; None: it isn't, or at once.
    """

    fault_id: int
    queue: str | None
    group: str
    message_id: str
    type: str
    sequence: int | None
    ordinal: int | None
    attempt: int
    kind: str
    error_class: str
    error: str
    traceback: str
    at: datetime
    worker: str
    retry_at: datetime | None


@dataclass(frozen=True, slots=True)
class FaultFilter:
    """Which faults.

    Args:
        queue: only those of this queue.
        group: only those of the group with this key.
        key: only those of groups whose key fits this pattern.
        message_id: only those at this message.
        kind: only those of this kind.
        older_than: only those that are older than that.
        error: only those whose class or text has this in it.
    """

    queue: str | None = None
    group: str | None = None
    key: str | None = None
    message_id: str | None = None
    kind: str | None = None
    older_than: timedelta | None = None
    error: str | None = None


def faults_of(
    transaction: Transaction, chosen: FaultFilter, *, before: int | None = None, limit: int = 100
) -> list[FaultView]:
    """Faults, newest first, at most `limit`; those with a lower number than `before`."""
    return _read(transaction, chosen, None, before, limit)


@dataclass(frozen=True, slots=True)
class KeptFaults:
    """How many `faults` there are, `since` when (None: there are none), and how long they are `kept_for`."""

    faults: int
    since: datetime | None
    kept_for: timedelta


def count_faults(transaction: Transaction) -> KeptFaults:
    """How many there are."""
    return transaction.one("count_faults", KeptFaults)


def fault_of(transaction: Transaction, fault_id: int) -> FaultView:
    """One fault.

    Raises:
        UsageError: there is none of that number, or it can't be one.
    """
    if isinstance(fault_id, bool) or not isinstance(fault_id, int) or not 0 < fault_id < 2**63:
        raise UsageError(f"{shown(fault_id)} is not the number of a fault", remedy="a whole number from 1")
    found = _read(transaction, FaultFilter(), fault_id, None, 1)
    if not found:
        raise UsageError(f"there is no fault {fault_id}", remedy="see the faults")
    return found[0]


def _read(
    transaction: Transaction, chosen: FaultFilter, fault_id: int | None, before: int | None, limit: int
) -> list[FaultView]:
    parameters: dict[str, Any] = {
        "fault_id": fault_id,
        "queue": chosen.queue,
        "group_key": chosen.group,
        "pattern": None if chosen.key is None else fitting(chosen.key),
        "message_id": chosen.message_id,
        "kind": chosen.kind,
        "older_than": chosen.older_than,
        "text": None if chosen.error is None else containing(chosen.error),
        "before": before,
        "limit": limit,
    }
    return transaction.rows("faults", FaultView, **parameters)
