"""Events of groups, for operators: list and count; and for exporters, one after another."""

from __future__ import annotations

from collections.abc import Collection

from seriatim.box.box import MessageBox
from seriatim.box.connection.access import Transaction
from seriatim.box.views.events import EventFilter, EventView, KindCount, events_of, read_events, with_open_holes
from seriatim.operations.listing import listed

__all__ = ["EventFilter", "EventView", "KindCount", "events", "events_after", "events_and_holes", "events_by_kind"]


@listed(EventFilter, without=("after",))
def events(transaction: Transaction, chosen: EventFilter) -> list[EventView]:
    """List the events of groups, newest first: holes that were overdue or skipped, suspensions, closings."""
    return events_of(transaction, chosen)


@listed(EventFilter, without=("after",))
def events_and_holes(transaction: Transaction, chosen: EventFilter) -> list[EventView]:
    """List the events of groups, newest first, with the holes that are open now, as the page of a group has them."""
    return with_open_holes(transaction, chosen)


@listed(EventFilter, without=("before", "after"))
def events_by_kind(transaction: Transaction, chosen: EventFilter) -> list[KindCount]:
    """Count events by kind, the most frequent first."""
    return transaction.rows("events_by_kind", KindCount, **chosen.parameters())


def events_after(
    box: MessageBox,
    after: int = 0,
    *,
    queue: str | None = None,
    kinds: str | Collection[str] | None = None,
    limit: int = 1000,
) -> list[EventView]:
    """The events of groups behind a position, in the order of positions: a cursor for exporters.

    A reader that goes on behind the last position that it got misses no event, and gets none twice. An event gets its
    position when the first reader comes after its commit. The events of a group are in the order in which they happened.

    Args:
        box: the box.
        after: the `position` of the last event that was read; 0: from the first event that is kept.
        queue: only events of this queue.
        kinds: only events of this kind, or of these kinds.
        limit: the largest number of events.

    Raises:
        UsageError: there is no such queue or kind, or `after` or the limit is invalid.
        EnvironmentProblem: the role may not see the queue, or no queue at all.
        Unavailable: the database is away.
    """
    if queue is not None:
        box.definitions().queue(queue)
    return read_events(box.access.transaction, after, queue=queue, kinds=kinds, limit=limit)
