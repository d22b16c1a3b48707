"""Events of groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seriatim.operations.tables.table import Column, Table, json_only, text_only

if TYPE_CHECKING:
    from seriatim.operations.events import EventView, KindCount

__all__ = ["EVENTS", "KIND_COUNTS"]

EVENTS: Table[EventView] = Table(
    "An event",
    *json_only("event_id", "position"),
    Column("at"),
    Column("queue"),
    Column("group"),
    *json_only("incarnation"),
    Column("kind", "event", shown=lambda one: one.kind.replace("_", " ")),
    *json_only("first", "last"),
    text_only("numbers", lambda one: one.numbers, "from `first` to `last`"),
    Column("count", shown=lambda one: one.count if one.count > 1 else None, optional=True),
    *json_only("recorded_at", "operation_id", "action", "actor"),
    Column("reason", "by", shown=lambda one: one.by, meaning="the actor's reason"),
    row="seriatim.box.views.events:EventView",
)
KIND_COUNTS: Table[KindCount] = Table(
    "A count of events",
    Column("kind", "event"),
    Column("events", "count"),
    Column("groups"),
    Column("first"),
    Column("last"),
    row="seriatim.box.views.events:KindCount",
)
