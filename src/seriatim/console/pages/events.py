"""Events of groups, newest first."""

from __future__ import annotations

from typing import Any

from seriatim.console.page import Answer, Asked, Field, Listing, Page
from seriatim.kernel.outcome import EventKind
from seriatim.operations import events
from seriatim.operations.tables.events import EVENTS

__all__ = ["PAGE"]

_FIELDS = (
    Field("queue", "Queue"),
    Field("group", "Group"),
    Field("kinds", "Event", tuple(map(str, EventKind))),
    Field("since", "Since", hint="2h, or 2026-03-01 14:30"),
    Field("until", "Until"),
)


def _read(asked: Asked) -> Answer:
    given: dict[str, Any] = asked.chosen("queue", "group", "key", "kinds", "since", "until")
    rows = events.events(asked.box, before=asked.number("before"), limit=asked.limit, **given)
    return Answer(
        EVENTS.objects_of(rows),
        fields=_FIELDS,
        about="Newest first.",
        listing=Listing(
            EVENTS,
            rows,
            "Events",
            links={"group": lambda one: ("groups", one.queue, one.group)},
            nothing="There are no events.",
            following=None if len(rows) < asked.limit else dict(asked.query) | {"before": str(rows[-1].event_id)},
        ),
    )


PAGE = Page(("events",), "Events", _read, section="Box")
