"""Schedules: when each publishes, and what it has published."""

from __future__ import annotations

from markupsafe import Markup

from seriatim.console.lists import list_page
from seriatim.operations import schedules
from seriatim.operations.tables.schedules import SCHEDULES

__all__ = ["PAGE"]

_TEMPLATE = """
{% extends "base.html" %}
{% from "parts.html" import listed, switch_form with context %}
{% block main %}
<h1>Schedules</h1>
<p class="about">Each publishes a message at its times. Workers and <code>seriatim serve</code> see to it; without one of them it is overdue.</p>
{{ listed(listing) }}
{% if asked.may("switch") and listing.rows %}<details{% if rejected %} open{% endif %}><summary>Pause or resume one</summary>
{% for one in listing.rows %}{{ switch_form("schedule.resume" if one.paused_at else "schedule.pause", one.schedule, ("Resume" if one.paused_at else "Pause") ~ " schedule " ~ one.schedule) }}{% endfor %}
</details>{% endif %}
{% endblock %}
"""


PAGE = list_page(
    "schedules",
    "Schedules",
    schedules.schedules,
    SCHEDULES,
    links={"last message": lambda one: ("messages", one.last_message) if one.last_message else None},
    nothing="There are no schedules.",
    hint=Markup("Define one with <code>sq.Schedule</code>: <code>seriatim docs how-to/scheduled-publish</code>."),
    usual=("waiting",),
    template=_TEMPLATE,
    section="Box",
)
