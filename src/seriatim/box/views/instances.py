"""List running and suspended instances. Reads the view ``instances`` without locks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from seriatim.box.connection.access import Transaction
from seriatim.errors import NotFound

__all__ = ["InstanceStatus", "InstanceView", "instance_of", "instances_of"]


class InstanceStatus(StrEnum):
    """The status of an instance; an ended instance is deleted."""

    RUNNING = "running"
    SUSPENDED = "suspended"


@dataclass(frozen=True, slots=True)
class InstanceView:
    """The present state of an instance.

    Args:
        instance_id: its number.
        queue: the queue's name.
        group: the key of its group.
        status: suspended while its group is suspended.
        subscription: the starting subscription that created it.
        starts: the handler of its messages, as ``module:name``.
        correlations: the values that it has added, by property.
        waiting: the number of messages in its group.
        state: its state, as JSON values.
        version: the number of times that it was saved.
        started_at: the time when it was started.
        changed_at: the time when it was last saved.
    """

    instance_id: int
    queue: str
    group: str
    status: InstanceStatus
    subscription: str
    starts: str
    correlations: Mapping[str, list[str]]
    waiting: int
    state: Mapping[str, Any]
    version: int
    started_at: datetime
    changed_at: datetime


def instance_of(transaction: Transaction, instance_id: int) -> InstanceView:
    """One instance."""
    instances = instances_of(transaction, instance_id=instance_id, limit=1)
    if not instances:
        raise NotFound(f"there is no instance {instance_id!r}", remedy="it may have ended; see the instances")
    return instances[0]


def instances_of(
    transaction: Transaction,
    *,
    instance_id: int | None = None,
    queue: str | None = None,
    group: str | None = None,
    status: InstanceStatus | None = None,
    after: int = 0,
    limit: int = 1000,
) -> list[InstanceView]:
    """List at most `limit` instances by number, after `after`; filters: queue, group, status."""
    parameters = {
        "instance_id": instance_id, "queue": queue, "group_key": group, "status": status, "after": after, "limit": limit,
    }  # fmt: skip
    rows = transaction.rows("instances", dict, **parameters)
    return [InstanceView(**row | {"status": InstanceStatus(row["status"])}) for row in rows]
