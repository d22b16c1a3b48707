"""Search: a message id, a group's key or the value of a property, wherever the box has it."""

from __future__ import annotations

from typing import Any

from seriatim.console.filters import SINCE, UNTIL, Field
from seriatim.console.page import Answer, Asked, Listing, Page
from seriatim.operations.find import find
from seriatim.operations.tables.faults import FAULTS
from seriatim.operations.tables.found import FOUND, FOUND_MESSAGES
from seriatim.operations.tables.groups import GROUPS

__all__ = ["PAGE"]

#: Of so many of the newest messages the properties are read.
_NEWEST = 100_000
_FIELDS = (
    Field("text", "Message id, group key, or value of a property"),
    SINCE,
    UNTIL,
)
_TEMPLATE = """
{% extends "base.html" %}
{% from "parts.html" import filters, listed with context %}
{% block main %}
<h1>Search</h1>
{{ filters(fields, asked, open=not asked.query) }}
<p class="about">Finds message ids, keys of groups, and values of properties, these in the newest 100,000 messages (<code>seriatim find</code> reads all). For an error text: <a href="{{ url('faults', error=asked.query.get('text', '')) }}">faults</a>,
<a href="{{ url('groups', error=asked.query.get('text', '')) }}">groups that stand still</a>. For a pattern, such as c*: <a href="{{ url('groups', state='all', key=asked.query.get('text', '')) }}">keys of groups</a>.</p>
{% for one in lists %}<h2>{{ one.caption }}</h2>{{ listed(one) }}{% endfor %}
{% endblock %}
"""


def _read(asked: Asked) -> Answer:
    text = (asked.text("text") or "").strip()
    if not text:
        return Answer({}, values={"lists": []})
    given: dict[str, Any] = asked.chosen("since", "until")
    found = find(asked.box, text, limit=asked.limit, newest=_NEWEST, **given)
    to_group: dict[str, Any] = {
        "group": lambda one: None if one.group is None or one.queue is None else ("groups", one.queue, one.group)
    }
    to_message: dict[str, Any] = {"message": lambda one: ("messages", one.message_id)}
    lists = [
        Listing(
            GROUPS.only("queue", "group", "state", "since", "next number", "held", "queued"),
            found.groups,
            "Groups",
            to_group,
        ),
        Listing(FOUND_MESSAGES, found.messages, "Messages", to_group | to_message),
        Listing(FAULTS, found.faults, "Faults", to_group | to_message),
    ]
    return Answer(FOUND.object_of(found), values={"lists": lists})


PAGE = Page(("search",), "Search", _read, _TEMPLATE, section="Work", place=2, fields=_FIELDS)
