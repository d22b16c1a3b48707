"""The overview: the queues as rows, and the law of conservation as one line."""

from __future__ import annotations

from seriatim.console.html import sparkline
from seriatim.console.page import Answer, Asked, Page
from seriatim.operations import queues
from seriatim.operations.tables.queues import COUNTS
from seriatim.pipeline.text.counted import counted

__all__ = ["PAGE"]

_TEMPLATE = """
{% extends "base.html" %}
{% from "parts.html" import law_line, switch_form with context %}
{% block main %}
<h1>Overview</h1>
{{ law_line(law) }}
<div class="scroll" tabindex="0" role="region" aria-label="Queues">
<table>
<caption class="unseen">Queues</caption>
<thead><tr><th scope="col">queue</th><th scope="col">is</th><th scope="col" class="n">waiting</th>
<th scope="col" class="n">in hand</th><th scope="col" class="n">held</th><th scope="col" class="n">groups that stand still</th>
<th scope="col" class="n">dead letters</th><th scope="col">oldest</th><th scope="col">at work</th>
<th scope="col">waiting, last 15 min</th></tr></thead>
<tbody>
{% for one in rows %}
<tr>
<th scope="row"><a href="{{ url('queues', one.queue) }}">{{ one.queue | plain }}</a></th>
<td>{{ ("on" if one.enabled else "off") | badge }}{% if one.is_full %} <strong>full</strong>{% endif %}</td>
<td class="n">{{ (one.arrived + one.queued) | number }}</td>
<td class="n">{{ one.in_hand | number }}</td>
<td class="n">{{ one.held | number }}</td>
<td class="n">{% if one.stopped or one.waiting_groups or one.faulted %}<a class="alarm" href="{{ url('groups', queue=one.queue, all='yes') }}"
>{{ (one.stopped + one.waiting_groups) | number }}</a>{% if one.faulted %} <small>+ {{ one.faulted | counted("message") }}</small>{% endif %}{% else %}0{% endif %}</td>
<td class="n">{% if one.dead %}<a href="{{ url('dead-letters', queue=one.queue) }}">{{ one.dead | number }}</a>{% else %}0{% endif %}</td>
<td>{{ one.oldest | ago }}</td>
<td>{% if one.is_idle %}<strong class="alarm">nobody</strong>{% else %}{{ one.processes or "" }}{% endif %}</td>
<td>{{ sparks.get(one.queue, "") }}</td>
</tr>
{% else %}
<tr><td colspan="10">There are no queues yet.</td></tr>
{% endfor %}
</tbody>
</table>
</div>
{% if asked.actor and not rows %}<p>Define one, and publish: <code>seriatim docs first-box</code>.</p>{% endif %}
{% endblock %}
"""


def _read(asked: Asked) -> Answer:
    rows = queues.queues(asked.box)
    sparks = {}
    for one in rows:
        past = asked.looks.waiting_of(one.queue)
        sparks[one.queue] = sparkline(past, f"from {past[0]:,} to {past[-1]:,} waiting") if len(past) > 1 else ""
    still = sum(one.stopped + one.waiting_groups for one in rows)
    return Answer(
        COUNTS.objects_of(rows),
        values={"rows": rows, "law": asked.looks.law, "sparks": sparks, "still": counted(still, "group")},
    )


PAGE = Page(("",), "Overview", _read, _TEMPLATE, section="Work", place=0)
