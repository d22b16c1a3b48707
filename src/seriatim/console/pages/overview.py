"""The overview: the queues as rows, and the law of conservation as one line."""

from __future__ import annotations

from markupsafe import Markup

from seriatim.console.html import sparkline
from seriatim.console.page import Answer, Asked, Page
from seriatim.operations.tables.meanings import meanings
from seriatim.operations.tables.queues import COUNTS

__all__ = ["PAGE"]

_TEMPLATE = """
{% extends "base.html" %}
{% from "parts.html" import law_line, counts_line, meanings with context %}
{% block main %}
<h1>Overview</h1>
{{ law_line(law) }}
{{ counts_line(counted) }}
<div class="scroll" tabindex="0" role="region" aria-label="Queues">
<table>
<caption class="unseen">Queues</caption>
<thead><tr><th scope="col">queue</th><th scope="col">state</th><th scope="col" class="n">stand still</th>
<th scope="col" class="n">arrived</th><th scope="col" class="n">held</th><th scope="col" class="n">queued</th><th scope="col" class="n">in hand</th>
<th scope="col" class="n">dead letters</th><th scope="col">oldest</th><th scope="col" class="n">processes</th>
<th scope="col">released/s</th></tr></thead>
<tbody>
{% for one in rows %}
<tr>
<th scope="row"><a href="{{ url('queues', one.queue) }}">{{ one.queue | plain }}</a></th>
<td data-title="state">{{ ("on" if one.enabled else "off") | badge }}{% if one.is_full %} <strong>full</strong>{% endif %}</td>
<td data-title="stand still" class="n">{% if one.stopped or one.waiting_groups or one.faulted %}<a class="alarm" href="{{ url('groups', queue=one.queue, all='yes') }}"
>{{ (one.stopped + one.waiting_groups) | counted("group") }}</a>{% if one.faulted %} <small>+ {{ one.faulted | counted("message") }}</small>{% endif %}{% else %}0{% endif %}</td>
<td data-title="arrived" class="n">{{ one.arrived | number }}</td>
<td data-title="held" class="n">{{ one.held | number }}</td>
<td data-title="queued" class="n">{{ one.queued | number }}</td>
<td data-title="in hand" class="n">{{ one.in_hand | number }}</td>
<td data-title="dead letters" class="n">{% if one.dead %}<a href="{{ url('dead-letters', queue=one.queue) }}">{{ one.dead | number }}</a>{% else %}0{% endif %}</td>
<td data-title="oldest">{{ one.oldest | ago }}</td>
<td data-title="processes" class="n">{% if one.is_idle %}<strong class="alarm">nobody</strong>{% else %}{{ one.processes or "" }}{% endif %}</td>
<td data-title="released/s">{{ sparks.get(one.queue, "") }}</td>
</tr>
{% else %}
{% for name, enabled in names %}<tr><th scope="row"><a href="{{ url('queues', name) }}">{{ name | plain }}</a></th><td>{{ ("on" if enabled else "off") | badge }}</td><td colspan="9"></td></tr>
{% else %}<tr><td colspan="11">There are no queues yet.</td></tr>{% endfor %}
{% endfor %}
</tbody>
</table>
</div>
{% if names %}{{ meanings(told) }}{% endif %}
{% if not names %}<p>Define one, and publish: <code>seriatim docs first-box</code>.</p>{% endif %}
{% endblock %}
"""


#: What the columns mean: those of the command's table have the same names, but for a few.
_MEANINGS = [
    (
        "law of conservation",
        "every message that was received is released, held or set aside: none is lost, none is there twice",
    ),
    (
        "stand still",
        "groups that are suspended or faulted, or wait for a missing number; and messages that failed in a queue without groups",
    ),
    *meanings(COUNTS.only("arrived", "held", "queued", "in hand", "oldest", "processes")),
    ("dead letters", "messages that were set aside because their handler failed, or an operator gave them up"),
    ("released/s", "messages a second that left the resequencer in the last ten seconds; the line shows 15 minutes"),
]


def _read(asked: Asked) -> Answer:
    counted = asked.looks.counted()
    rows = counted.rows or []
    names = [(name, one.enabled) for name, one in sorted(asked.box.definitions().queues.items())]
    sparks = {}
    for one in rows:
        past = asked.looks.rates_of(one.queue)
        if past:
            label = f"{past[-1]:,.0f} a second; at most {max(past):,.0f} in the last 15 minutes"
            sparks[one.queue] = Markup("{} {}").format(f"{past[-1]:,.0f}", sparkline(past, label))
    twin = (
        COUNTS.objects_of(rows) if counted.rows is not None else [{"queue": name, "enabled": on} for name, on in names]
    )
    values = {
        "rows": rows,
        "names": names,
        "law": asked.looks.law,
        "sparks": sparks,
        "counted": counted,
        "told": _MEANINGS,
    }
    return Answer(twin, values=values)


PAGE = Page(("", "queues"), "Overview", _read, _TEMPLATE, section="Work", place=-1)
