"""A fault: the error with its traceback."""

from __future__ import annotations

from seriatim.console.page import Answer, Asked, Page
from seriatim.errors import UsageError, shown
from seriatim.operations import faults
from seriatim.operations.tables.faults import FAULTS

__all__ = ["PAGE"]

_TEMPLATE = """
{% extends "base.html" %}
{% from "parts.html" import message_link with context %}
{% block main %}
<h1>Fault {{ one.fault_id }}</h1>
<p class="why-text">{{ one.error_class | plain }}: {{ one.error | plain }}</p>
<dl class="facts">
<div><dt>At</dt><dd>{{ one.at | moment }}</dd></div>
<div><dt>Kind</dt><dd>{{ one.kind }}</dd></div>
{% if one.group is not none %}<div><dt>Group</dt><dd><a href="{{ url('groups', one.queue, one.group) }}">{{ one.group | plain }}</a> in {{ one.queue | plain }}</dd></div>{% endif %}
<div><dt>Message</dt><dd>{{ message_link(one.message_id) }}</dd></div>
<div><dt>Attempt</dt><dd>{{ one.attempt }}</dd></div>
<div><dt>Worker</dt><dd>{{ (one.worker or "") | plain }}</dd></div>
{% if one.retry_at %}<div><dt>Tried again</dt><dd>{{ one.retry_at | moment }}</dd></div>{% endif %}
</dl>
{% if one.traceback %}<h2>Traceback</h2><pre class="body" tabindex="0" aria-label="Traceback">{{ one.traceback | lines }}</pre>{% endif %}
{% endblock %}
"""


def _read(asked: Asked) -> Answer:
    text = asked.named["id"]
    if not text.isdecimal() or len(text) > 18:
        raise UsageError(f"there is no fault {shown(text, 60)}", remedy="see the faults")
    one = faults.fault_view(asked.box, int(text))
    return Answer(FAULTS.object_of(one), title=f"Fault {text}", values={"one": one})


PAGE = Page(("faults/{id}",), "Fault", _read, _TEMPLATE)
