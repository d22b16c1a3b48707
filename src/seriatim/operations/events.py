"""Events of groups, for operators: list and count. Exporters read them by `MessageBox.events`."""

from __future__ import annotations

from seriatim.box.connection.access import Transaction
from seriatim.box.views.events import EventFilter, EventView, KindCount, events_of
from seriatim.box.views.events import events_by_kind as count_by_kind
from seriatim.operations.listing import listed

__all__ = ["EventFilter", "EventView", "KindCount", "events", "events_by_kind"]


@listed(EventFilter, without=("after",))
def events(transaction: Transaction, chosen: EventFilter) -> list[EventView]:
    """List the events of groups, newest first: holes that were overdue or skipped, suspensions, closings."""
    return events_of(transaction, chosen)


@listed(EventFilter, without=("before", "after"))
def events_by_kind(transaction: Transaction, chosen: EventFilter) -> list[KindCount]:
    """Count events by kind, the most frequent first."""
    return count_by_kind(transaction, chosen)
