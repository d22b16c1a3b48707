"""A queue: its counts, what is set for it, who works on it, and the switch that turns it on and off."""

from __future__ import annotations

from seriatim.console.page import Answer, Asked, Listing, Page
from seriatim.errors import UsageError, shown
from seriatim.operations import queues, workers
from seriatim.operations.tables.queues import COUNTS
from seriatim.operations.tables.workers import WORKER

__all__ = ["PAGE"]

_TEMPLATE = """
{% extends "base.html" %}
{% from "parts.html" import listed, switch_form with context %}
{% block main %}
<h1>Queue {{ one.queue | plain }} {{ ("on" if one.enabled else "off") | badge }}</h1>
<dl class="facts">
{% for column in table.shown_for([one]).shown %}<div><dt>{{ column.title }}</dt><dd>{{ column.seen(one) | cell }}</dd></div>
{% endfor %}
</dl>
<p><a href="{{ url('groups', queue=one.queue) }}">Groups that stand still</a> ·
<a href="{{ url('messages', queue=one.queue) }}">messages</a> · <a href="{{ url('faults', queue=one.queue) }}">faults</a> ·
<a href="{{ url('dead-letters', queue=one.queue) }}">dead letters</a> · <a href="{{ url('events', queue=one.queue) }}">events</a></p>
{% if asked.may("switch") %}
{{ switch_form("queue.off" if one.enabled else "queue.on", one.queue, "Turn " ~ ("off" if one.enabled else "on") ~ " queue " ~ one.queue) }}
{% endif %}
<h2>At work</h2>
{{ listed(at_work) }}
{% endblock %}
"""


def _read(asked: Asked) -> Answer:
    name = asked.named.get("queue") or asked.query.get("name", "")
    found = [one for one in queues.queues(asked.box) if one.queue == name]
    if not found:
        raise UsageError(f"there is no queue {shown(name)}", remedy="the overview has all queues")
    at_work = Listing(WORKER, workers.workers(asked.box, name), "At work", nothing="no process works on it")
    return Answer(
        COUNTS.object_of(found[0]), title=f"Queue {name}", values={"one": found[0], "table": COUNTS, "at_work": at_work}
    )


PAGE = Page(("queues/{queue}", "queue"), "Queue", _read, _TEMPLATE)
