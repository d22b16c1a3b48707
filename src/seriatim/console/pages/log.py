"""The operator log: who did what, when and why. What one did to many groups is one line, which unfolds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from seriatim.console.filters import QUEUE, check_values
from seriatim.console.lists import fields_of, given, takes_of
from seriatim.console.page import Answer, Asked, Page
from seriatim.operations import operator_log
from seriatim.operations.tables.standing import LOG
from seriatim.operations.tables.table import shown_value

__all__ = ["PAGE"]

_FIELDS = fields_of(operator_log.operator_log)
#: Details that say nothing further to people, or stand in the first of them. An id is as long as that.
_PASSED_OVER = ("before", "after", "obeyed", "entry_id", "since", "status")
_UUID = 36
_TEMPLATE = """
{% extends "base.html" %}
{% from "parts.html" import filters, group_link with context %}
{% block main %}
<h1>Operator log</h1>
<p class="about">Newest first. Entries are only added, never changed. What one actor did with one reason to several groups is one line.</p>
{{ filters(fields, asked) }}
{% if not runs %}<p class="nothing">{{ "No operator has done such a thing." if asked.query else "No operator has done anything. Each button of the console, and each command that changes something, has a line here, with who did it and why." }}</p>
{% else %}<div class="scroll" tabindex="0" role="region" aria-label="Operator log">
<table>
<caption class="unseen">Operator log</caption>
<thead><tr><th scope="col" class="n">number</th><th scope="col">when</th><th scope="col">actor</th><th scope="col">action</th><th scope="col">on</th><th scope="col">details</th><th scope="col">role</th><th scope="col">reason</th></tr></thead>
<tbody>
{% for one in runs %}<tr>
<td data-title="number" class="n">{% if one.count > 1 %}{{ one.first_id }}..{% endif %}{{ one.operation_id }}</td>
<td data-title="when">{{ one.at | ago }}</td>
<td data-title="actor"><a href="{{ url(*at, **dict(kept, actor=one.actor)) }}">{{ one.actor | plain }}</a></td>
<td data-title="action"><a href="{{ url(*at, **dict(kept, action=one.action)) }}">{{ one.action | words }}</a></td>
<td data-title="on">{% set listed = one.listed %}{% if one.count == 1 %}{% if listed %}{{ group_link(*listed[0]) }} in {% endif %}{{ (one.queues or []) | join(", ") | plain }}
{% elif listed %}<details><summary>{% if one.is_cut %}more than {% endif %}{{ one.count | counted("group") }} in {{ one.queues | join(", ") | plain }}</summary>
<ul class="many">{% for queue, group in listed %}<li>{{ group_link(queue, group) }}{% if one.queues | length > 1 %} in {{ queue | plain }}{% endif %}</li>{% endfor %}
{% if one.count > listed | length %}<li>and {{ (one.count - listed | length) | number }} more: <a href="{{ url(_suffix='.json', *at, **dict(kept, actor=one.actor, action=one.action, before=one.operation_id + 1, limit=[one.count, 1000] | min)) }}">all as JSON</a></li>{% endif %}</ul></details>
{% else %}{{ one.count | counted("time") }}{% if one.queues %} on {{ one.queues | join(", ") | plain }}{% endif %}{% endif %}</td>
<td data-title="details" class="whole">{{ details(one.details) | folded }}</td>
<td data-title="role">{{ (one.role or "") | plain }}</td>
<td data-title="reason" class="long">{{ one.reason | folded }}</td>
</tr>
{% endfor %}
</tbody></table></div>
{% if following %}<p><a rel="next" href="{{ url(*at, **following) }}">More</a></p>{% endif %}
{% endif %}
{% endblock %}
"""


def _read(asked: Asked) -> Answer:
    arguments = given(asked, operator_log.operator_log)
    reads = operator_log.operator_log if asked.is_twin else operator_log.operator_log_runs
    found: Sequence[Any] = reads(asked.box, **arguments)
    if not found:  # a queue that was dropped is in the log
        check_values(asked.box, (QUEUE,), asked.query)
    if asked.is_twin:
        return Answer(LOG.objects_of(found))
    more = None
    if found and (len(found) == asked.limit or found[-1].is_cut):
        more = dict(asked.query) | {"before": str(found[-1].first_id)}
    kept = asked.chosen(*(one.name for one in _FIELDS))
    return Answer(None, values={"runs": found, "following": more, "kept": kept, "details": _details})


def _details(found: Mapping[str, Any] | None) -> str:
    """What one entry did, in words: from which state to which, and what further it says."""
    if not found:
        return ""
    before, after = found.get("before"), found.get("after")
    told = [f"{before} → {after}".replace("_", " ")] if before and after else []
    told += [
        f"{name.removesuffix('_id').replace('_', ' ')} {_words(value)}"
        for name, value in found.items()
        if name not in _PASSED_OVER and value not in (None, 0, "", [], {})
    ]
    return ", ".join(told)


def _words(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {one}" for name, one in value.items())
    text = shown_value(value)
    return f"…{text[-8:]}" if len(text) == _UUID else text


PAGE = Page(
    ("log",), "Operator log", _read, _TEMPLATE, section="Box", fields=_FIELDS, takes=takes_of(operator_log.operator_log)
)
