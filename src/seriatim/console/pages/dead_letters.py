"""Dead letters, with the ways back: put back, or delete."""

from __future__ import annotations

from seriatim.console.lists import TO_GROUP, TO_MESSAGE, list_page
from seriatim.operations import dead_letters
from seriatim.operations.tables.dead_letters import DEAD_LETTERS

__all__ = ["PAGE"]

_TEMPLATE = """
{% extends "base.html" %}
{% from "parts.html" import filters, listed with context %}
{% block main %}
<h1>Dead letters</h1>
{{ filters(fields, asked) }}
{% if listing.rows and not asked.query.get("by") %}<p class="bulk">All dead letters that this filter finds:
{% if asked.may("mend") %}<a class="button" href="{{ url('bulk', what='dead-letters', action='requeue', **where) }}">Requeue…</a>{% endif %}
{% if asked.may("discard") %}<a class="button" href="{{ url('bulk', what='dead-letters', action='delete', **where) }}">Delete…</a>{% endif %}
</p>{% endif %}
{{ listed(listing) }}
{% endblock %}
"""


PAGE = list_page(
    "dead-letters",
    "Dead letters",
    dead_letters.page,
    DEAD_LETTERS,
    by_error=dead_letters.dead_letters_by_error,
    links={"number": TO_MESSAGE["message"], **TO_MESSAGE, **TO_GROUP},
    nothing="There are no dead letters.",
    template=_TEMPLATE,
    section="Messages",
)
