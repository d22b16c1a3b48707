"""Events of a pipeline's groups, newest first."""

from __future__ import annotations

from typing import Any

from seriatim.console.filters import SINCE, UNTIL, Field
from seriatim.console.page import Answer, Asked, Listing, Page
from seriatim.kernel.values.outcome import EventKind
from seriatim.operations.tables.pipelines import EVENTS

__all__ = ["PAGE"]

_FIELDS = (
    Field("queue", "Destination"),
    Field("group", "Group"),
    Field("kinds", "Event", tuple(one.word for one in EventKind)),
    SINCE,
    UNTIL,
)


def _read(asked: Asked) -> Answer:
    found = asked.pipelines.find(asked.named["pipeline"])
    from seriatim.operations.pipelines.events import events  # noqa: PLC0415 -- Spark is slow to import

    given: dict[str, Any] = asked.chosen("queue", "group", "key", "kinds", "since", "until")
    rows = events(found, before=asked.number("before"), limit=asked.limit, **given)
    links = {"group": lambda one: ("pipelines", found.name, "groups", one.queue, one.group)}
    return Answer(
        EVENTS.objects_of(rows),
        title=f"Events of pipeline {found.name}",
        about="Newest first.",
        listing=Listing(
            EVENTS,
            rows,
            "Events",
            links,
            nothing="There are no events.",
            following=None if len(rows) < asked.limit else dict(asked.query) | {"before": str(rows[-1].event_id)},
        ),
    )


PAGE = Page(("pipelines/{pipeline}/events",), "Events of a pipeline", _read, fields=_FIELDS, takes=("key", "before"))
