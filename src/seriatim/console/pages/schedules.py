"""Schedules: when each publishes, and what it has published."""

from __future__ import annotations

from seriatim.console.page import Answer, Asked, Listing, Page
from seriatim.operations import schedules
from seriatim.operations.tables.schedules import SCHEDULES

__all__ = ["PAGE"]

_TEMPLATE = """
{% extends "base.html" %}
{% from "parts.html" import listed, switch_form with context %}
{% block main %}
<h1>Schedules</h1>
{{ listed(listing) }}
{% if asked.may("switch") and listing.rows %}<details{% if rejected %} open{% endif %}><summary>Pause or resume one</summary>
{% for one in listing.rows %}{{ switch_form("schedule.resume" if one.paused_at else "schedule.pause", one.schedule, ("Resume" if one.paused_at else "Pause") ~ " schedule " ~ one.schedule) }}{% endfor %}
</details>{% endif %}
{% endblock %}
"""


def _read(asked: Asked) -> Answer:
    rows = schedules.schedules(asked.box)
    return Answer(
        SCHEDULES.objects_of(rows), listing=Listing(SCHEDULES, rows, "Schedules", nothing="There are no schedules.")
    )


PAGE = Page(("schedules",), "Schedules", _read, _TEMPLATE, section="Box")
