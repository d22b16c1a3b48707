"""List the recorded faults of handlers. Reads without locks."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from seriatim.box.connection.access import Transaction
from seriatim.box.views.filters import ErrorCount, Narrowed
from seriatim.box.views.groups import containing, fitting
from seriatim.errors import NotFound, UsageError, shown

__all__ = ["FaultFilter", "FaultView", "KeptFaults", "count_faults", "fault_of", "faults_by_error", "faults_of"]


@dataclass(frozen=True, slots=True)
class FaultView:
    """A fault of a handler.

    Args:
        fault_id: its number.
        queue: the queue's name; None if the queue was dropped.
        group: the group's key; empty in a queue that is `Unordered`.
        message_id: the id of the message.
        type: the message's type.
        sequence: the message's position in its group, as its producer numbered it.
        ordinal: the message's position among the released messages of the group.
        attempt: the number of the attempt, from 1.
        kind: ``transient``, ``unexpected``, ``bug``, ``business``, ``poison`` or ``timeout``.
        error_class: the name of the error's class.
        error: the error's text.
        traceback: its traceback; may be empty.
        at: the time.
        worker: the worker whose handler failed.
        retry_at: the time of the automatic retry; None: no retry, or at once.
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
    """A filter for faults."""

    queue: str | None = None
    group: str | None = None
    #: Only faults of groups whose key matches this pattern.
    key: str | None = None
    message_id: str | None = None
    kind: str | None = None
    older_than: timedelta | None = None
    #: Only faults with this text in their class or text.
    error: str | None = None
    error_class: str | None = None
    #: Only faults at a time in this range, and at messages that still exist and have these properties.
    narrowed: Narrowed = field(default_factory=Narrowed)


def faults_of(
    transaction: Transaction, chosen: FaultFilter, *, before: int | None = None, limit: int = 100
) -> list[FaultView]:
    """List at most `limit` faults, newest first, with numbers below `before`."""
    return _read(transaction, chosen, None, before, limit)


def faults_by_error(transaction: Transaction, chosen: FaultFilter, limit: int = 100) -> list[ErrorCount]:
    """Count the faults by the class of their error, the most frequent first."""
    return transaction.rows("faults_by_error", ErrorCount, **_parameters(chosen), limit=limit)


@dataclass(frozen=True, slots=True)
class KeptFaults:
    """The number of recorded `faults`, the oldest one's time (`since`; None: no faults), and their keeping time (`kept_for`)."""

    faults: int
    since: datetime | None
    kept_for: timedelta


def count_faults(transaction: Transaction) -> KeptFaults:
    """Count the recorded faults."""
    return transaction.one("count_faults", KeptFaults)


def fault_of(transaction: Transaction, fault_id: int) -> FaultView:
    """One fault."""
    if isinstance(fault_id, bool) or not isinstance(fault_id, int) or not 0 < fault_id < 2**63:
        raise UsageError(f"{shown(fault_id)} is not the number of a fault", remedy="a whole number from 1")
    found = _read(transaction, FaultFilter(), fault_id, None, 1)
    if not found:
        raise NotFound(f"there is no fault {fault_id}", remedy="see the faults")
    return found[0]


def _read(
    transaction: Transaction, chosen: FaultFilter, fault_id: int | None, before: int | None, limit: int
) -> list[FaultView]:
    parameters = _parameters(chosen) | {"fault_id": fault_id, "before": before, "limit": limit}
    return transaction.rows("faults", FaultView, **parameters)


def _parameters(chosen: FaultFilter) -> dict[str, Any]:
    return {
        "queue": chosen.queue,
        "group_key": chosen.group,
        "pattern": None if chosen.key is None else fitting(chosen.key),
        "message_id": chosen.message_id,
        "kind": chosen.kind,
        "older_than": chosen.older_than,
        "text": None if chosen.error is None else containing(chosen.error),
        "error_class": chosen.error_class,
        **chosen.narrowed.parameters(),
    }
