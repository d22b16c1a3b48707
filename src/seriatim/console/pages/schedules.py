"""Schedules: when each publishes, and what it has published."""

from __future__ import annotations

from markupsafe import Markup

from seriatim.console.page import Answer, Asked, Listing, Page
from seriatim.operations import schedules
from seriatim.operations.tables.schedules import SCHEDULES

__all__ = ["PAGE"]

_TEMPLATE = "schedules.html"


def _read(asked: Asked) -> Answer:
    rows = schedules.schedules(asked.box)
    listing = Listing(
        SCHEDULES,
        rows,
        "Schedules",
        links={"last message": lambda one: ("messages", one.last_message) if one.last_message else None},
        nothing="There are no schedules.",
        hint=Markup("Define one with <code>sq.Schedule</code>: <code>seriatim docs how-to/scheduled-publish</code>."),
        usual=("waiting",),
    )
    return Answer(SCHEDULES.objects_of(rows), listing=listing)


PAGE = Page(("schedules",), "Schedules", _read, _TEMPLATE, section="Box")
