"""A bulk operation: how far it is, what was left out and why, and the buttons that begin and cancel it."""

from __future__ import annotations

from typing import Any

from seriatim.console.lists import fields_of, following, given, takes_of
from seriatim.console.page import Answer, Asked, Page, Rows
from seriatim.errors import NotFound, shown
from seriatim.kernel.groups.verbs import VERBS, Action
from seriatim.operations import bulk_operations
from seriatim.operations.tables.bulk import BULK_GROUPS, BULK_OPERATIONS

__all__ = ["PAGE"]

_FIELDS = fields_of(bulk_operations.bulk_groups)
_TEMPLATE = """
{% extends "base.html" %}
{% from "parts.html" import filters, listed, switch_form with context %}
{% block main %}
<h1>{{ words.many }} {{ one.groups | counted("group") }} {{ one.state | badge }}</h1>
<p class="about">Bulk operation {{ one.bulk_id }} by {{ one.actor | plain }}, {{ one.gathered_at | ago }}: {{ one.reason | plain }}</p>
<section class="why {{ one.state }}" aria-labelledby="how-far"><h2 id="how-far">How far it is</h2>
<p class="why-text">{{ (one.groups - one.left) | number }} of {{ one.groups | counted("group") }}</p>
<p><progress max="{{ one.groups }}" value="{{ one.groups - one.left }}" aria-labelledby="how-far">{{ one.groups - one.left }} of {{ one.groups }}</progress></p>
<dl class="facts">
<div><dt>Done</dt><dd class="big">{{ one.done | number }}</dd></div>
<div><dt>Refused</dt><dd class="big">{{ one.refused | number }}</dd></div>
<div><dt>Changed since they were seen</dt><dd class="big">{{ one.changed | number }}</dd></div>
<div><dt>Left</dt><dd class="big">{{ one.left | number }}</dd></div>
<div><dt>Queues</dt><dd>{% for queue in one.queues %}<a href="{{ url('queues', queue) }}">{{ queue | plain }}</a>{% if not loop.last %}, {% endif %}{% else %}dropped{% endfor %}</dd></div>
<div><dt>Filter</dt><dd>{% for name, value in one.filter.items() %}{{ name | words }}: <strong>{{ value | plain }}</strong>{% if not loop.last %}, {% endif %}{% else %}none{% endfor %}</dd></div>
<div><dt>Groups seen</dt><dd>{{ one.gathered_at | ago }}</dd></div>
{% if one.begun_at %}<div><dt>Begun</dt><dd>{{ one.begun_at | ago }}</dd></div>{% endif %}
{% if one.ended_at %}<div><dt>{{ "Cancelled" if one.cancelled_by else "Ended" }}</dt><dd>{{ one.ended_at | ago }}{% if one.cancelled_by %} by {{ one.cancelled_by | plain }}: {{ one.cancelled_because | plain }}{% endif %}</dd></div>{% endif %}
</dl>
</section>
{% if may %}
{% if one.state == "gathered" %}<section class="acts" aria-labelledby="acts"><h2 id="acts">Nothing has happened yet</h2>
{% if one.actor == actor.name %}<form class="act best{% if words.role == 'discard' %} harsh{% endif %}" method="post" action="{{ url('act') }}">
<input type="hidden" name="action" value="bulk.begin"><input type="hidden" name="name" value="{{ one.bulk_id }}"><input type="hidden" name="reason" value="{{ one.reason }}">
<button class="primary">Begin: {{ words.many | lower }} {{ one.groups | counted("group") }}</button>
<span class="meaning">{{ words.meaning | capitalize }}. A group that has changed since it was seen is left out.</span></form>
{% else %}<p class="about">{{ one.actor | plain }} has gathered these groups, and begins.</p>{% endif %}
{{ switch_form("bulk.cancel", one.bulk_id | string, "Discard it") }}</section>
{% elif one.state == "running" %}<section class="acts" aria-label="Cancel">{{ switch_form("bulk.cancel", one.bulk_id | string, "Cancel") }}
<p class="about">What is done stays done.</p></section>{% endif %}
{% endif %}
<h2>{{ heading }}</h2>
{{ filters(fields, asked) }}
{{ listed(listing) }}
{% endblock %}
"""


def _read(asked: Asked) -> Answer:
    text = asked.named["id"]
    if not text.isdecimal() or len(text) > 18:
        raise NotFound(f"there is no bulk operation {shown(text, 60)}", remedy="see the bulk operations")
    one = bulk_operations.bulk_operation(asked.box, int(text))
    if one.state == "running" and not asked.reads_only and asked.bulk is not None:
        asked.bulk.wake()  # where the process that began it is gone, this one goes on
    words = VERBS[Action(one.action)]
    result = asked.text("result") or ("not done" if one.begun_at is not None else None)
    chosen = given(asked, bulk_operations.bulk_groups) | {"result": result}
    rows = bulk_operations.bulk_groups(asked.box, one.bulk_id, **chosen)
    links: dict[str, Any] = {"group": lambda row: None if row.queue is None else ("groups", row.queue, row.group)}
    table = BULK_GROUPS if any(row.operation_id is not None for row in rows) else BULK_GROUPS.without("log")
    listing = Rows(
        table if one.begun_at is not None else BULK_GROUPS.only("queue", "group"), rows, "Groups", links,
        nothing="There are none.", following=following(asked, bulk_operations.bulk_groups, rows),
    )  # fmt: skip
    heading = {None: "Its groups", "not done": "Not done", "left": "Left"}.get(result, str(result).capitalize())
    return Answer(
        BULK_OPERATIONS.object_of(one),
        title=f"Bulk operation {one.bulk_id}",
        listing=listing,
        values={"one": one, "words": words, "may": asked.may(words.role), "heading": heading},
    )


PAGE = Page(
    ("bulk-operations/{id}",),
    "Bulk operation",
    _read,
    _TEMPLATE,
    fields=_FIELDS,
    takes=takes_of(bulk_operations.bulk_groups),
)
