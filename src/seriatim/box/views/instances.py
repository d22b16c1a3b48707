"""List running and suspended instances. Reads the view ``instances`` without locks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from seriatim.box.connection.access import Transaction
from seriatim.box.views import listing
from seriatim.box.views.listing import Listing
from seriatim.errors import NotFound


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


@dataclass(frozen=True, slots=True)
class InstanceFilter(Listing):
    queue: str | None = listing.queue("instances of this queue")
    _: KW_ONLY
    group: str | None = listing.group("the instance of this group")
    status: InstanceStatus | str | None = listing.choice(
        "instances with this status", InstanceStatus, "a status of instances"
    )
    after: int = listing.place(lambda one: one.instance_id, default=0)
    limit: int = listing.limit("instances", 1000)


def instance_of(transaction: Transaction, instance_id: int) -> InstanceView:
    instances = instances_of(transaction, InstanceFilter(), instance_id)
    if not instances:
        raise NotFound(f"there is no instance {instance_id!r}", remedy="it may have ended; see the instances")
    return instances[0]


def instances_of(
    transaction: Transaction, chosen: InstanceFilter, instance_id: int | None = None
) -> list[InstanceView]:
    rows = transaction.rows("instances", dict, **chosen.parameters(), instance_id=instance_id)
    return [InstanceView(**row | {"status": InstanceStatus(row["status"])}) for row in rows]
