"""The lists of a pipeline: the events of its groups, and its operator log with the commands that wait for it; newest first."""

from __future__ import annotations

from collections.abc import Callable
from pkgutil import resolve_name
from typing import Any

from seriatim.console.lists import fields_of, following, given, takes_of
from seriatim.console.page import Answer, Asked, Page, Rows
from seriatim.operations.events import events
from seriatim.operations.log_entries import entries_of_box
from seriatim.operations.tables.pipelines import EVENTS, LOGGED
from seriatim.operations.tables.table import Table


def _page(
    path: str, title: str, reads: Callable[..., Any], table: Table[Any], about: str, nothing: str, *, follows: bool = False
) -> Page:  # fmt: skip
    """A list of a pipeline. `path`: also the module that reads it, which imports Spark; `reads`: the function of a box with its filters."""

    def read(asked: Asked) -> Answer:
        found = asked.pipelines.find(asked.named["pipeline"])
        of_pipeline = resolve_name(f"seriatim.operations.pipelines.{path}:{_READS[path]}")
        rows = of_pipeline(found, **given(asked, reads))
        base, more = ("pipelines", found.name, "groups"), following(asked, reads, rows) if follows else None
        links = {"group": lambda one: (*base, one.queue, one.group) if one.queue and one.group is not None else None}
        listing = Rows(table.without("pipeline"), rows, title, links, nothing=nothing, following=more)
        return Answer(table.objects_of(rows), f"{title} of pipeline {found.name}", listing, about)

    fields = fields_of(reads, of_pipeline=True)
    at = f"pipelines/{{pipeline}}/{path}"
    return Page((at,), f"{title} of a pipeline", read, fields=fields, takes=takes_of(reads))


_READS = {"events": "events", "log": "operator_log"}
_LATER = "Newest first. A command that the pipeline hasn't obeyed yet is queued."
PAGES = (
    _page("events", "Events", events, EVENTS, "Newest first.", "There are no events.", follows=True),
    _page("log", "Operator log", entries_of_box, LOGGED, _LATER, "No operator has done anything."),
)
