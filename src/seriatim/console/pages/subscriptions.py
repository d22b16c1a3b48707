"""Subscriptions, which can be stopped and started."""

from __future__ import annotations

from seriatim.console.page import Answer, Asked, Listing, Page
from seriatim.operations.tables.subscriptions import SUBSCRIPTIONS

__all__ = ["PAGE"]

_TEMPLATE = """
{% extends "base.html" %}
{% from "parts.html" import listed, switch_form with context %}
{% block main %}
<h1>Subscriptions</h1>
{{ listed(listing) }}
{% if asked.may("switch") and listing.rows %}<details{% if rejected %} open{% endif %}><summary>Start or stop one</summary>
{% for one in listing.rows %}{{ switch_form("subscription.stop" if one.state == "started" else "subscription.start", one.declared.name, ("Stop" if one.state == "started" else "Start") ~ " subscription " ~ one.declared.name) }}{% endfor %}
</details>{% endif %}
{% endblock %}
"""


def _read(asked: Asked) -> Answer:
    rows = [one for _, one in sorted(asked.box.definitions().subscriptions.items())]
    links = {"queue": lambda one: ("queues", one.declared.to)}
    return Answer(SUBSCRIPTIONS.objects_of(rows), listing=Listing(SUBSCRIPTIONS, rows, "Subscriptions", links=links))


PAGE = Page(("subscriptions",), "Subscriptions", _read, _TEMPLATE, section="Box")
