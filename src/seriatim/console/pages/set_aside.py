"""Messages that were set aside as late, duplicate, invalid or rejected, and unrouted ones: all but dead letters."""

from __future__ import annotations

from seriatim.console.lists import TO_GROUP, TO_MESSAGE, list_page
from seriatim.console.page import Asked
from seriatim.operations import set_aside
from seriatim.operations.tables.messages import SET_ASIDE

__all__ = ["PAGE"]

_TEMPLATE = """
{% extends "base.html" %}
{% from "parts.html" import filters, listed with context %}
{% block main %}
<h1>Late or invalid</h1>
<p class="about">Messages that the rules of their queue set aside as late, duplicate, invalid or rejected, and unrouted ones. What was set aside because its handler failed, or an operator gave it up, is a <a href="{{ url('dead-letters') }}">dead letter</a>.</p>
{{ filters(fields, asked) }}
{% if listing.rows %}<p class="bulk">All messages that this filter finds:
{% if asked.may("mend") and listing.rows | selectattr("status", "in", ("late", "duplicate", "rejected")) | list %}<a class="button" href="{{ url('bulk', what='set-aside', action='requeue', **where) }}">Requeue…</a>{% endif %}
{% if asked.may("discard") %}<a class="button" href="{{ url('bulk', what='set-aside', action='delete', **where) }}">Delete…</a>{% endif %}
</p>{% endif %}
{{ listed(listing) }}
{% endblock %}
"""


PAGE = list_page(
    "set-aside",
    "Late or invalid",
    set_aside.set_aside,
    SET_ASIDE,
    caption="Late or invalid messages",
    rows=Asked.unnamed,
    links={**TO_MESSAGE, **TO_GROUP},
    nothing="No message is late or invalid.",
    hint="A queue sets a message aside if its number came already or was given up, or if it has no number.",
    template=_TEMPLATE,
    section="Messages",
)
