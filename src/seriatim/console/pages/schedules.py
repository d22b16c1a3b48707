"""Schedules: when each publishes, and what it has published."""

from __future__ import annotations

from markupsafe import Markup

from seriatim.console.lists import list_page
from seriatim.operations import schedules
from seriatim.operations.tables.schedules import SCHEDULES

PAGE = list_page(
    "schedules",
    "Schedules",
    schedules.schedules,
    SCHEDULES,
    links={"last message": lambda one: ("messages", one.last_message) if one.last_message else None},
    nothing="There are no schedules.",
    hint=Markup("Define one with <code>sq.Schedule</code>: <code>seriatim docs how-to/scheduled-publish</code>."),
    usual=("waiting",),
    template="schedules.html",
    section="Box",
)
