"""Instances that run or are suspended."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from markupsafe import Markup

from seriatim.console.lists import TO_GROUP, list_page
from seriatim.console.page import Answer, Asked, Rows
from seriatim.operations import instances
from seriatim.operations.tables.instances import INSTANCES

__all__ = ["PAGE"]

_TEMPLATE = """
{% extends "base.html" %}
{% from "parts.html" import filters, listed, switch_form with context %}
{% block main %}
<h1>Instances</h1>
<p class="about">State that a handler keeps between the messages of a group, from the message that starts it until it ends.</p>
{{ filters(fields, asked) }}
{{ listed(listing) }}
{% if listing.rows | length == 1 %}{% set one = listing.rows[0] %}
{% if asked.may("mend") %}{{ switch_form("instance.resume" if one.status == "suspended" else "instance.suspend", one.instance_id, ("Resume" if one.status == "suspended" else "Suspend") ~ " instance " ~ one.instance_id) }}{% endif %}
{% if asked.may("discard") %}{{ switch_form("instance.terminate", one.instance_id, "Terminate instance " ~ one.instance_id, "The instance ends. Messages that were led to it become dead letters; the others that wait are matched with the starting subscriptions again.") }}{% endif %}
{% endif %}
{% endblock %}
"""


def _read(asked: Asked) -> Answer:
    number = asked.named.get("instance")
    if number is None:
        found = _LIST.read(asked)
        twin: Any = found.twin
    else:
        one = instances.instance_view(asked.box, int(number) if number.isdecimal() and len(number) < 19 else 0)
        twin = INSTANCES.objects_of([one])
        found = Answer(twin, listing=Rows(INSTANCES, [one], "Instances", _LINKS))
    if not asked.may("see-bodies"):  # values of properties, and what a handler has kept of them
        twin = [one | {"correlations": {}, "state": {}} for one in twin]
    return replace(found, twin=twin)


_LINKS = {"instance": lambda one: ("instances", str(one.instance_id)), **TO_GROUP}
_LIST = list_page(
    "instances",
    "Instances",
    instances.instances,
    INSTANCES,
    links=_LINKS,
    nothing="There are no instances.",
    hint=Markup("A subscription with <code>starts</code> begins one: <code>seriatim docs how-to/instances</code>."),
    template=_TEMPLATE,
    section="Box",
)
PAGE = replace(_LIST, paths=("instances", "instances/{instance}"), read=_read)
