"""Pause schedules, and let them go on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from seriatim.box.connection.access import Transaction
from seriatim.box.definitions.schedules import scheduled
from seriatim.box.operators.operator_log import Operator, log
from seriatim.errors import NotFound, SchemaMismatch, shown
from seriatim.pipeline.text.section import likely


def pause(transaction: Transaction, names: Sequence[str], by: Operator) -> list[str]:
    """Pause schedules, all or none; gives the names of those that weren't paused."""
    _check(transaction, names)
    paused = [name for name in dict.fromkeys(names) if _is_changed(transaction, "pause_schedule", name, actor=by.actor)]
    return _logged(transaction, paused, by, "pause")


def resume(transaction: Transaction, names: Sequence[str], by: Operator) -> list[str]:
    """Let paused schedules go on at their next due time, all or none; gives the names of those that were paused."""
    known = _check(transaction, names)
    now, resumed = transaction.value("clock"), []
    for name in dict.fromkeys(names):
        if (schedule := known[name]) is None:
            raise SchemaMismatch(
                f"the definition of schedule {name!r} can't be read", remedy="define it again, or drop it"
            )
        if _is_changed(transaction, "resume_schedule", name, next_at=next(schedule.after(now), None)):
            resumed.append(name)
    return _logged(transaction, resumed, by, "resume")


def _check(transaction: Transaction, names: Sequence[str]) -> dict[str, Any]:
    known = scheduled(transaction)
    for name in names:
        if not isinstance(name, str) or name not in known:
            raise NotFound(f"there is no schedule {shown(name)}", remedy=likely(name, known))
    return known


def _is_changed(transaction: Transaction, statement: str, name: str, **parameters: object) -> bool:
    return transaction.maybe(statement, name=name, **parameters) is not None


def _logged(transaction: Transaction, names: list[str], by: Operator, action: str) -> list[str]:
    for name in names:
        log(transaction, by, f"{action} schedule", queue=None, group=None, details={"schedule": name})
    return names
