"""Events of groups, for operators: list and count. Exporters read them by `MessageBox.events`."""

from __future__ import annotations

from collections.abc import Collection

from seriatim.box.box import MessageBox
from seriatim.box.connection.dsn import place_of
from seriatim.box.postgres.translate import translated
from seriatim.box.views.events import EventFilter, EventView, KindCount, checked_kinds, checked_limit, events_of
from seriatim.box.views.events import events_by_kind as count_by_kind
from seriatim.operations.period import When, narrowed

__all__ = ["EventView", "KindCount", "events", "events_by_kind"]


def events(
    box: MessageBox,
    queue: str | None = None,
    *,
    group: str | None = None,
    key: str | None = None,
    kinds: str | Collection[str] | None = None,
    since: When | None = None,
    until: When | None = None,
    before: int | None = None,
    limit: int = 100,
) -> list[EventView]:
    """List events of groups, newest first.

    Args:
        box: the box.
        queue: only in this queue.
        group: only of the group with this key.
        key: only of groups whose key matches this pattern: ``*`` stands for any text, ``?`` for one character.
        kinds: only events of this kind, or of these kinds.
        since: only events from this moment on: a datetime, ISO text (without a zone: local time), or how long ago it was, as
            seconds or ``"2h"``.
        until: only events before this moment, likewise.
        before: only events with lower numbers, for paging: the last `event_id` of the previous call.
        limit: the largest number of rows.

    Raises:
        UsageError: there is no such kind, or the limit or the range of time is invalid.
    """
    chosen = EventFilter(queue, group, key, checked_kinds(kinds), narrowed(since, until))
    with box.session() as tx, translated(place_of(box.dsn, box.schema)):
        return events_of(tx.transaction, chosen, before=before, limit=checked_limit(limit))


def events_by_kind(
    box: MessageBox,
    queue: str | None = None,
    *,
    group: str | None = None,
    key: str | None = None,
    kinds: str | Collection[str] | None = None,
    since: When | None = None,
    until: When | None = None,
    limit: int = 100,
) -> list[KindCount]:
    """Count events by kind, the most frequent first. Arguments and errors are the same as for `events`."""
    chosen = EventFilter(queue, group, key, checked_kinds(kinds), narrowed(since, until))
    with box.session() as tx, translated(place_of(box.dsn, box.schema)):
        return count_by_kind(tx.transaction, chosen, checked_limit(limit))
