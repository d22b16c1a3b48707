"""A fault: the error with its traceback, where the message is now, and what helps it."""

from __future__ import annotations

from typing import Any

from seriatim.console.mending import mending_of
from seriatim.console.page import Answer, Asked, Page
from seriatim.errors import EnvironmentProblem, NotFound, UsageError, shown
from seriatim.operations import faults, messages
from seriatim.operations.tables.faults import FAULTS

__all__ = ["PAGE"]

_TEMPLATE = """
{% extends "base.html" %}
{% from "parts.html" import mending, message_link with context %}
{% block main %}
<h1>Fault {{ one.fault_id }}</h1>
<div class="why-text">{{ (one.error_class ~ ": " ~ one.error) | folded(240) }}</div>
<dl class="facts">
<div><dt>At</dt><dd>{{ one.at | ago }}</dd></div>
<div><dt>Kind</dt><dd>{{ one.kind }}</dd></div>
{% if one.group is not none %}<div><dt>Group</dt><dd><a href="{{ url('groups', one.queue, one.group) }}">{{ one.group | plain }}</a> in {{ one.queue | plain }}</dd></div>{% endif %}
<div><dt>Message</dt><dd>{{ message_link(one.message_id) }}</dd></div>
<div><dt>Attempt</dt><dd>{{ one.attempt }}</dd></div>
<div><dt>Worker</dt><dd>{{ (one.worker or "") | plain }}</dd></div>
{% if one.retry_at %}<div><dt>Tried again</dt><dd>{{ one.retry_at | ago }}</dd></div>{% endif %}
</dl>
{% if places is none %}<p class="about">The box doesn't keep the message any more.</p>
{% else %}<p class="about">The message now: {% for place in places %}{{ place.status | badge }}{% if place.queue %} in {{ place.queue | plain }}{% endif %}{% if not loop.last %}, {% endif %}{% else %}no queue has it any more{% endfor %}.</p>
{{ mending(mends, one.message_id) }}{% endif %}
{% if one.traceback %}<h2>Traceback</h2><pre class="body" tabindex="0" aria-label="Traceback">{{ one.traceback | lines }}</pre>{% endif %}
{% endblock %}
"""


def _read(asked: Asked) -> Answer:
    text = asked.named["id"]
    if not text.isdecimal() or len(text) > 18:
        raise NotFound(f"there is no fault {shown(text, 60)}", remedy="see the faults")
    one = faults.fault_view(asked.box, int(text))
    try:
        message, places = messages.message(asked.box, one.message_id)
    except (UsageError, EnvironmentProblem):  # it is gone, several have its id, or the role doesn't see it
        values: dict[str, Any] = {"one": one, "places": None, "mends": None}
    else:
        here = [place for place in places if place.queue == one.queue]
        values = {"one": one, "places": here, "mends": mending_of(asked, message, here)}
    return Answer(FAULTS.object_of(one), title=f"Fault {text}", values=values)


PAGE = Page(("faults/{id}",), "Fault", _read, _TEMPLATE)
