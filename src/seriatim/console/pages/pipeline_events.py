"""Events of a pipeline's groups, newest first."""

from __future__ import annotations

from seriatim.console.lists import fields_of, following, given, takes_of
from seriatim.console.page import Answer, Asked, Page, Rows
from seriatim.operations.events import events as of_box
from seriatim.operations.tables.pipelines import EVENTS


def _read(asked: Asked) -> Answer:
    found = asked.pipelines.find(asked.named["pipeline"])
    from seriatim.operations.pipelines.events import events  # noqa: PLC0415 -- Spark is slow to import

    rows = events(found, **given(asked, of_box))
    links = {"group": lambda one: ("pipelines", found.name, "groups", one.queue, one.group)}
    more = following(asked, of_box, rows)
    return Answer(
        EVENTS.objects_of(rows),
        title=f"Events of pipeline {found.name}",
        about="Newest first.",
        listing=Rows(EVENTS, rows, "Events", links, nothing="There are no events.", following=more),
    )


PAGE = Page(
    ("pipelines/{pipeline}/events",),
    "Events of a pipeline",
    _read,
    fields=fields_of(of_box, of_pipeline=True),
    takes=takes_of(of_box),
)
