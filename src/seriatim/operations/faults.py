"""Faults of handlers, for operators: list and show."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from seriatim.box.box import MessageBox
from seriatim.box.connection.dsn import place_of
from seriatim.box.postgres.translate import translated
from seriatim.box.views.faults import FaultFilter, FaultView, KeptFaults, count_faults, fault_of, faults_of
from seriatim.box.views.faults import faults_by_error as count_by_error
from seriatim.box.views.filters import ErrorCount, Narrowed
from seriatim.errors import UsageError, shown
from seriatim.kernel.operators.fault import FaultKind
from seriatim.kernel.values.time import micros
from seriatim.operations.period import When, narrowed

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

_MOST = 100_000


def faults(
    box: MessageBox,
    queue: str | None = None,
    *,
    group: str | None = None,
    key: str | None = None,
    message_id: str | None = None,
    kind: FaultKind | str | None = None,
    older_than: float | str | None = None,
    error: str | None = None,
    error_class: str | None = None,
    since: When | None = None,
    until: When | None = None,
    properties: Mapping[str, object] | None = None,
    before: int | None = None,
    limit: int = 100,
) -> list[FaultView]:
    """List faults of handlers, newest first.

    Args:
        box: the box.
        queue: only in this queue.
        group: only in the group with this key.
        key: only in groups whose key matches this pattern: ``*`` stands for any text, ``?`` for one character.
        message_id: only faults at this message.
        kind: only faults of this kind: ``transient``, ``unexpected``, ``bug``, ``business``, ``poison`` or ``timeout``.
        older_than: only faults older than this many seconds (or ``"5m"``).
        error: only faults with this text in their class or text; case is ignored.
        error_class: only faults with an error of this class.
        since: only faults from this moment on: a datetime, ISO text (without a zone: local time), or how long ago it was, as
            seconds or ``"2h"``.
        until: only faults before this moment, likewise.
        properties: only faults at messages that still exist, with these values of properties, by name.
        before: only faults with lower numbers, for paging: the last number of the previous call.
        limit: the largest number of rows.

    Raises:
        UsageError: there is no such kind, or the limit, the period, the range of time or a property is invalid.
    """
    _check_limit(limit)
    chosen = _filter(
        queue,
        group,
        key=key,
        message_id=message_id,
        kind=kind,
        older_than=older_than,
        error=error,
        error_class=error_class,
        narrowed=narrowed(since, until, properties),
    )
    with box.session() as tx, translated(place_of(box.dsn, box.schema)):
        return faults_of(tx.transaction, chosen, before=before, limit=limit)


def faults_by_error(
    box: MessageBox,
    queue: str | None = None,
    *,
    group: str | None = None,
    key: str | None = None,
    message_id: str | None = None,
    kind: FaultKind | str | None = None,
    older_than: float | str | None = None,
    error: str | None = None,
    error_class: str | None = None,
    since: When | None = None,
    until: When | None = None,
    properties: Mapping[str, object] | None = None,
    limit: int = 100,
) -> list[ErrorCount]:
    """Count faults by the class of their error, the most frequent first. Arguments and errors are the same as for `faults`."""
    _check_limit(limit)
    chosen = _filter(
        queue,
        group,
        key=key,
        message_id=message_id,
        kind=kind,
        older_than=older_than,
        error=error,
        error_class=error_class,
        narrowed=narrowed(since, until, properties),
    )
    with box.session() as tx, translated(place_of(box.dsn, box.schema)):
        return count_by_error(tx.transaction, chosen, limit)


def _check_limit(limit: int) -> None:
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= _MOST:
        raise UsageError(f"cannot list {shown(limit)} faults", remedy=f"an integer from 1 to {_MOST:,}")


def _filter(
    queue: str | None, group: str | None, *, key: str | None, message_id: str | None, kind: FaultKind | str | None,
    older_than: float | str | None, error: str | None, error_class: str | None, narrowed: Narrowed,
) -> FaultFilter:  # fmt: skip
    if kind is not None and kind not in list(FaultKind):
        raise UsageError(f"{shown(kind)} is not a kind of fault", remedy=f"one of {', '.join(FaultKind)}")
    age = None if older_than is None else timedelta(microseconds=micros(older_than))
    return FaultFilter(queue, group, key, message_id, kind, age, error, error_class, narrowed)


def kept_faults(box: MessageBox) -> KeptFaults:
    """The number of recorded faults, the time of the oldest fault, and how long faults are kept."""
    with box.session() as tx, translated(place_of(box.dsn, box.schema)):
        return count_faults(tx.transaction)


def fault_view(box: MessageBox, fault_id: int) -> FaultView:
    """A fault, by its number.

    Raises:
        UsageError: there is no such fault.
    """
    with box.session() as tx, translated(place_of(box.dsn, box.schema)):
        return fault_of(tx.transaction, fault_id)
