"""Search: a message id, a group's key or the value of a property, wherever the box has it; or what is similar to that."""

from __future__ import annotations

from dataclasses import replace

from seriatim.console.filters import Field
from seriatim.console.lists import TO_GROUP, TO_MESSAGE, fields_of, given
from seriatim.console.page import Answer, Asked, Page, Rows
from seriatim.operations.find import find
from seriatim.operations.tables.faults import FAULTS
from seriatim.operations.tables.found import FOUND, FOUND_MESSAGES, SIMILAR
from seriatim.operations.tables.groups import GROUPS

__all__ = ["PAGE"]

#: Of so many of the newest messages the properties are read.
_NEWEST = 100_000
_FIELDS = (
    Field("text", "Message id, group key, or value of a property"),
    *(one for one in fields_of(find) if one.name != "similar"),
)
_TEMPLATE = """
{% extends "base.html" %}
{% from "parts.html" import filters, listed with context %}
{% block main %}
<h1>Search</h1>
{{ filters(fields, asked, open=not text) }}
{% if text and not lists %}<p class="nothing" role="status">Nothing found for “{{ text | plain }}”.</p>
{% elif similar %}<p class="about" role="status">Nothing is just “{{ text | plain }}”. These are similar:</p>{% endif %}
{% for one in lists %}<h2>{{ one.caption }}</h2>{{ listed(one) }}{% endfor %}
<h2>What is searched</h2>
<ul class="searched">
<li><strong>Ids of messages</strong>, as long as the box remembers them; parts of an id of 4 characters or more, such as its end, in the newest 20,000 messages.</li>
<li><strong>Keys of groups</strong>: a whole key, or the beginning of one. With * for any text: c*-17.{% if text %} Anywhere in a key: <a href="{{ url('groups', state='all', key='*' ~ text ~ '*') }}">groups with {{ text | plain }}</a>.{% endif %}</li>
{% if asked.may("see-bodies") %}<li><strong>Values of properties</strong>, whole ones, in the newest 100,000 messages. <code>seriatim find VALUE</code> reads all messages.</li>
{% else %}<li>Not properties: you don't see those of messages.</li>{% endif %}
<li>Not bodies, and not error texts.{% if text %} Errors with {{ text | plain }}: <a href="{{ url('faults', error=text) }}">faults</a>, <a href="{{ url('groups', error=text) }}">groups that stand still</a>, <a href="{{ url('dead-letters', error=text) }}">dead letters</a>.{% endif %}</li>
</ul>
<p class="about">Spaces around the text don't count. Where nothing is found, capital letters don't count, either: in keys and ids, and in the properties of the newest 20,000 messages.</p>
{% endblock %}
"""


def _read(asked: Asked) -> Answer:
    text = (asked.text("text") or "").strip()
    if not text:
        return Answer({}, values={"lists": [], "text": "", "similar": False})
    more = {"newest": _NEWEST, "similar": True, "properties": asked.may("see-bodies")}
    found = find(asked.box, text, **given(asked, find) | more)
    found = replace(found, messages=tuple(asked.unnamed(found.messages)))
    to_both = {**TO_GROUP, **TO_MESSAGE}
    lists = [
        Rows(
            GROUPS.only("queue", "group", "state", "since", "next number", "held", "queued", "reason"),
            found.groups,
            "Groups",
            TO_GROUP,
        ),
        Rows(FOUND_MESSAGES, found.messages, "Messages", to_both),
        Rows(FAULTS, found.faults, "Faults", to_both),
        Rows(SIMILAR, found.similar or (), "Groups and messages", to_both),
    ]
    values = {"lists": [one for one in lists if one.rows], "text": text, "similar": bool(found.similar)}
    return Answer(FOUND.object_of(found), values=values)


PAGE = Page(("search",), "Search", _read, _TEMPLATE, section="Work", place=2, fields=_FIELDS)
