"""Read the operator log: actions with their actors and reasons."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from seriatim.box.connection.access import Transaction

__all__ = ["Logged", "logged"]


@dataclass(frozen=True, slots=True)
class Logged:
    """An entry of the operator log.

    Args:
        operation_id: its number.
        at: the time of the action.
        actor: the actor, as the caller gave it.
        action: the action.
        queue: the queue's name.
        group: the group's key.
        reason: the reason.
        details: the action's arguments and result.
        role: the PostgreSQL role that had logged in (`session_user`); None in entries older than this field.
    """

    operation_id: int
    at: datetime
    actor: str
    action: str
    queue: str | None
    group: str | None
    reason: str
    details: Mapping[str, Any]
    role: str | None = None


def logged(
    transaction: Transaction,
    *,
    queue: str | None = None,
    group: str | None = None,
    before: int | None = None,
    limit: int = 100,
) -> list[Logged]:
    """List at most `limit` entries, newest first: with lower numbers than `before`; filters: queue, group."""
    parameters = {"queue": queue, "group_key": group, "before": before, "limit": limit}
    return transaction.rows("operator_log", Logged, **parameters)
