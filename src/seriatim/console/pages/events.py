"""Events of groups, newest first."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from seriatim.console.filters import QUEUE, SINCE, UNTIL, Field
from seriatim.console.page import Answer, Asked, Listing, Page
from seriatim.kernel.values.outcome import EventKind
from seriatim.operations import events
from seriatim.operations.tables.events import EVENTS

__all__ = ["PAGE"]

_FIELDS = (QUEUE, Field("group", "Group"), Field("kinds", "Event", tuple(map(str, EventKind))), SINCE, UNTIL)


_ABOUT = Markup(
    "What happened to groups besides the delivery of their messages, newest first. Holes are missing numbers, a conflict "
    "is a number that came again with another content, and void is a number that passed without a message; all words: "
    "<code>seriatim docs reference/events</code>."
)


def _read(asked: Asked) -> Answer:
    given: dict[str, Any] = asked.chosen("queue", "group", "key", "kinds", "since", "until")
    rows = events.events(asked.box, before=asked.number("before"), limit=asked.limit, **given)
    return Answer(
        EVENTS.objects_of(rows),
        about=_ABOUT,
        listing=Listing(
            EVENTS,
            rows,
            "Events",
            links={"group": lambda one: ("groups", one.queue, one.group)},
            nothing="There are no events.",
            hint="A group that waits for a missing number, is closed or suspended, or gets a number twice, has one.",
            following=None if len(rows) < asked.limit else dict(asked.query) | {"before": str(rows[-1].event_id)},
        ),
    )


PAGE = Page(("events",), "Events", _read, section="Box", fields=_FIELDS, takes=("key", "before"))
