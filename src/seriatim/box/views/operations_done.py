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
        at: when it was done.
        actor: who did it.
        action: what was done.
        queue: to which queue.
        group: to which group of it.
        reason: why.
        details: what was given, and what came of it.
        role: the role of PostgreSQL that had logged in (`session_user`), whoever the actor says that he is; None where
            that was not written down yet.
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
    transaction: Transaction, *, queue: str | None = None, group: str | None = None, limit: int = 100
) -> list[Logged]:
    """What was done, newest first, at most `limit`; to one queue or group."""
    parameters = {"queue": queue, "group_key": group, "limit": limit}
    return transaction.rows("operator_log", Logged, **parameters)
