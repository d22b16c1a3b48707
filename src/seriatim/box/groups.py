"""The groups of a box as they stand: read without locks, from the view ``group_states``."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import psycopg
from psycopg.rows import dict_row

from seriatim.box.statements import statement
from seriatim.errors import UsageError
from seriatim.kernel.states import GroupState

__all__ = ["GroupView", "group_of", "groups_of"]


@dataclass(frozen=True, slots=True)
class GroupView:
    """A group as it stands.

    Args:
        queue: the queue's name.
        group: its key.
        state: what it shows.
        locked: whether somebody works on it; to be seen in `state` only where nothing else stops it.
        next: the number that leaves next; None where its policy has none.
        arrived: messages that nobody has judged yet.
        held: messages that wait for others, or for an operator.
        queued: messages that are released and not handed out.
        hole_since: since when it waits for a missing number; None where it doesn't.
        hole_through: the last of the missing numbers, the first is `next`.
        last_released: the sequence of what was released last; microseconds where the queue goes by time.
        ordinal: how many were released.
        incarnation: which life of the group it is, from 0.
        due_at: when its next timer, or what may not be seen before, is due.
        suspended_by: who suspended it; None where nobody did, or a late message.
        suspended_because: the reason that was given.
        in_hand: messages that the queue's pipeline has in its hands; what a worker has is counted as it was before.
    """

    queue: str
    group: str
    state: GroupState
    locked: bool
    next: int | None
    arrived: int
    held: int
    queued: int
    hole_since: datetime | None
    hole_through: int | None
    last_released: int | None
    ordinal: int
    incarnation: int
    due_at: datetime | None
    suspended_by: str | None
    suspended_because: str | None
    in_hand: int


def group_of(connection: psycopg.Connection, schema: str, queue: str, group: str) -> GroupView:
    """One group.

    Raises:
        UsageError: the queue has never received a message of it, or there is no such queue.
    """
    found = _views(connection, schema, "group_state", {"queue": queue, "group_key": group})
    if not found:
        raise UsageError(
            f"there is no group {group!r} in queue {queue!r}", remedy="it has never received a message; see the groups"
        )
    return found[0]


def groups_of(
    connection: psycopg.Connection,
    schema: str,
    queue: str | None = None,
    state: GroupState | None = None,
    after: tuple[str, str] | None = None,
    limit: int = 1000,
) -> list[GroupView]:
    """Groups by queue and key, at most `limit`: of one queue or state; those behind the queue and key of `after`."""
    after_queue, after_group = after or (None, None)
    parameters = {
        "queue": queue, "state": state, "after_queue": after_queue, "after_group": after_group, "limit": limit,
    }  # fmt: skip
    return _views(connection, schema, "group_states", parameters)


def _views(connection: psycopg.Connection, schema: str, name: str, parameters: dict[str, Any]) -> list[GroupView]:
    with connection.cursor(row_factory=dict_row) as cursor:
        rows = cursor.execute(statement(name, schema), parameters).fetchall()
    return [GroupView(**row | {"state": GroupState(row["state"])}) for row in rows]
