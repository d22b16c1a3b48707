"""List bulk operations, and the result of each group. Reads without locks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, MISSING, dataclass
from datetime import datetime

from seriatim.box.connection.access import Transaction
from seriatim.box.views import listing
from seriatim.box.views.listing import Listing, storable, whole
from seriatim.errors import NotFound

#: The results of a group by which groups are listed; `not done` are those that were refused or had changed.
RESULTS = ("done", "refused", "changed", "left", "not done")


@dataclass(frozen=True, slots=True)
class BulkOperation:
    """An action on many groups.

    Args:
        bulk_id: its number.
        action: the action.
        at_once: for `close`: whether nothing leaves any more.
        queues: the queues of its groups.
        filter: the filter of its groups.
        actor: the actor, as the caller gave it.
        reason: the actor's reason.
        role: the PostgreSQL role that had logged in (`session_user`).
        gathered_at: when its groups were seen.
        begun_at: when it was begun; None: it waits for that, and nothing is done.
        moved_at: when its last portion was done; None: none is.
        ended_at: when it was over; None: it isn't.
        cancelled_by: the operator that cancelled it; None: nobody.
        cancelled_because: the reason for that.
        groups: how many groups it has.
        done: to how many it was done.
        refused: of how many it was refused.
        changed: how many were left out because they had changed since they were seen.
    """

    bulk_id: int
    action: str
    at_once: bool
    queues: list[str]
    filter: Mapping[str, str]
    actor: str
    reason: str
    role: str
    gathered_at: datetime
    begun_at: datetime | None
    moved_at: datetime | None
    ended_at: datetime | None
    cancelled_by: str | None
    cancelled_because: str | None
    groups: int
    done: int
    refused: int
    changed: int

    @property
    def state(self) -> str:
        """`gathered`, `running`, `ended` or `cancelled`."""
        if self.cancelled_by is not None:
            return "cancelled"
        if self.ended_at is not None:
            return "ended"
        return "gathered" if self.begun_at is None else "running"

    @property
    def left(self) -> int:
        """How many groups have no result."""
        return self.groups - self.done - self.refused - self.changed


@dataclass(frozen=True, slots=True)
class BulkGroup:
    """A group of a bulk operation.

    Args:
        queue_id: the queue's number.
        queue: the queue's name; None: it was dropped.
        group: the group's key.
        result: `done`, `refused`, or `changed`; None: nothing yet.
        why: why it was refused, or what has changed.
        operation_id: its number in the operator log.
    """

    queue_id: int
    queue: str | None
    group: str
    result: str | None
    why: str | None
    operation_id: int | None


@dataclass(frozen=True, slots=True)
class BulkFilter(Listing):
    _: KW_ONLY
    is_open: bool = listing.flag("those that aren't over", name="open", label="Only those that aren't over")
    before: int | None = listing.place(lambda one: one.bulk_id, what="Go on with a list: older ones.", metavar="NUMBER")
    limit: int = listing.limit("bulk operations")


@dataclass(frozen=True, slots=True)
class BulkGroupFilter(Listing):
    bulk_id: int = listing.given("The number of the operation.", MISSING)
    _: KW_ONLY
    result: str | None = listing.choice("groups with this result", RESULTS, "a result of a group")
    after: tuple[int, str] | None = listing.place(
        lambda one: (one.queue_id, one.group), "after_queue", "after_key", reads=(whole, storable)
    )
    limit: int = listing.limit("groups", 1000)


def bulk_operations_of(transaction: Transaction, chosen: BulkFilter, bulk_id: int | None = None) -> list[BulkOperation]:
    return transaction.rows("bulk_operations", BulkOperation, **chosen.parameters(), bulk_id=bulk_id)


def bulk_operation_of(transaction: Transaction, bulk_id: int) -> BulkOperation:
    operation = bulk_operations_of(transaction, BulkFilter(), bulk_id)
    if not operation:
        raise NotFound(f"there is no bulk operation {bulk_id}", remedy="see seriatim bulk list")
    return operation[0]
