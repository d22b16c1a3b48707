"""Unrouted messages: no subscription matched, or they don't fit their type."""

from __future__ import annotations

from seriatim.console.lists import TO_MESSAGE, list_page
from seriatim.console.page import Asked
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


PAGE = list_page(
    "unrouted",
    "Unrouted",
    messages.unrouted,
    MESSAGES,
    shown=MESSAGES.only("message", "type", "ticket", "reason", "parts"),
    caption="Unrouted messages",
    rows=Asked.unnamed,
    links=TO_MESSAGE,
    nothing="Nothing is unrouted.",
    hint="Each message was matched by a subscription, or named its queue.",
    template=_TEMPLATE,
    section="Messages",
)
