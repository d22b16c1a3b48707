"""Subscriptions, which can be stopped and started."""

from __future__ import annotations

from markupsafe import Markup

from seriatim.console.lists import list_page
from seriatim.operations import subscriptions
from seriatim.operations.tables.subscriptions import SUBSCRIPTIONS
from seriatim.operations.tables.table import text_only

__all__ = ["PAGE"]

_TABLE = SUBSCRIPTIONS.extended(
    "A subscription",
    text_only("starts", lambda one: one.declared.starts, "the handler of the instances that it starts"),
)
_TEMPLATE = """
{% extends "base.html" %}
{% from "parts.html" import filters, listed, switch_form with context %}
{% block main %}
<h1>Subscriptions</h1>
<p class="about">Which new messages go into which queue. A message that none matches is <a href="{{ url('unrouted') }}">unrouted</a>.</p>
{{ filters(fields, asked) }}
{{ listed(listing) }}
{% if asked.may("switch") and listing.rows %}<details{% if rejected %} open{% endif %}><summary>Start or stop one</summary>
{% for one in listing.rows %}{{ switch_form("subscription.stop" if one.state == "started" else "subscription.start", one.declared.name, ("Stop" if one.state == "started" else "Start") ~ " subscription " ~ one.declared.name) }}{% endfor %}
</details>{% endif %}
{% endblock %}
"""


PAGE = list_page(
    "subscriptions",
    "Subscriptions",
    subscriptions.subscriptions,
    SUBSCRIPTIONS,
    shown=_TABLE,
    links={"queue": lambda one: ("queues", one.declared.to)},
    nothing="There are no subscriptions.",
    hint=Markup("Define one with <code>sq.Subscription</code>: <code>seriatim docs how-to/subscribe</code>."),
    template=_TEMPLATE,
    section="Box",
)
