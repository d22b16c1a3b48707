"""Unrouted messages: no subscription matched, or they don't fit their type."""

from __future__ import annotations

from seriatim.console.page import Answer, Asked, Listing, Page
from seriatim.operations import messages
from seriatim.operations.tables.messages import MESSAGES

__all__ = ["PAGE"]

_TEMPLATE = """
{% extends "base.html" %}
{% from "parts.html" import listed, switch_form with context %}
{% block main %}
<h1>Unrouted</h1>
<p class="about">Messages that no subscription matched when they came, or that don't fit their type. Define what is missing, then route them again: they keep their places in the order.</p>
{{ listed(listing) }}
{% if listing.rows and asked.may("mend") %}{{ switch_form("unrouted.resubmit", "", "Route all unrouted messages again") }}{% endif %}
{% endblock %}
"""


def _read(asked: Asked) -> Answer:
    rows = messages.messages(asked.box, status="unrouted", limit=asked.limit)
    return Answer(
        MESSAGES.objects_of(rows),
        listing=Listing(
            MESSAGES.only("message", "type", "ticket", "reason", "parts"),
            rows,
            "Unrouted messages",
            links={"message": lambda one: ("messages", one.message_id)},
            nothing="Nothing is unrouted.",
            following=None if len(rows) < asked.limit else {"limit": str(min(asked.limit * 4, 1000))},
        ),
    )


PAGE = Page(("unrouted",), "Unrouted", _read, _TEMPLATE, section="Messages")
