"""A pipeline: the counts of its destinations, and the groups that stand still or hold messages."""

from __future__ import annotations

from typing import Any

from seriatim.console.filters import Field
from seriatim.console.lists import fields_of, given
from seriatim.console.page import Answer, Asked, Page, Rows
from seriatim.errors import ActionRefused
from seriatim.kernel.groups.states import STOPPED
from seriatim.operations.tables.pipelines import COUNTS, DESTINATIONS, GROUP, PipelineGroupFilter

__all__ = ["PAGE", "WAIT_S"]

#: So long a page waits for the answer of a run.
WAIT_S = 3.0
_FIELDS = (
    *fields_of(PipelineGroupFilter),
    Field("all", "With groups that hold nothing", ("yes",)),
)
_TEMPLATE = """
{% extends "base.html" %}
{% from "parts.html" import filters, listed with context %}
{% block main %}
<h1><span class="unseen">Pipeline </span>{{ one.pipeline | plain }} {{ ("running" if one.running else "stopped") | badge }}</h1>
<p class="about">{% if one.batch is not none %}As batch {{ one.batch }} left it{% if one.batch_at %}, {{ one.batch_at | ago }}{% endif %}.{% else %}It has finished no batch yet.{% endif %}
{% if one.queued %}<strong>{{ one.queued | counted("command") }} {{ "is" if one.queued == 1 else "are" }} queued.</strong>{% endif %}</p>
<dl class="facts">
<div><dt>Held messages</dt><dd class="big">{{ one.held | number }}</dd></div>
<div><dt>Groups that hold some</dt><dd class="big">{{ one.held_groups | number }}</dd></div>
<div><dt>Groups with a hole</dt><dd class="big">{{ one.holes | number }}</dd></div>
{% if one.oldest %}<div><dt>Oldest wait</dt><dd class="big">{{ one.oldest | age }}</dd></div>{% endif %}
{% if one.received_per_s is not none %}<div><dt>Received a second</dt><dd class="big">{{ "{:,.1f}".format(one.received_per_s) }}</dd></div>
<div><dt>Released a second</dt><dd class="big">{{ "{:,.1f}".format(one.released_per_s) }}</dd></div>{% endif %}
{% if one.lease %}<div><dt>Delivers</dt><dd>{{ one.lease.in_words | plain }}</dd></div>{% endif %}
{% if one.behind is not none %}<div><dt>Behind its source</dt><dd class="big">{{ one.behind | counted("record") }}</dd></div>{% endif %}
<div><dt>Set aside</dt><dd class="big">{{ one.set_aside | number }}</dd></div>
<div><dt>State on disk</dt><dd>{{ "%.1f" | format(one.state_bytes / 1000000) }} MB</dd></div>
<div><dt>Checkpoint</dt><dd><code>{{ one.checkpoint | plain }}</code></dd></div>
</dl>
<h2>Destinations</h2>
{{ listed(destinations) }}
<h2>{{ "Groups" if asked.query.get("all") or asked.query.get("state") else "Groups that stand still or hold messages" }}</h2>
{{ filters(fields, asked) }}
{% if refused %}<p class="law">{{ refused.what | plain }}{% if refused.remedy %} ({{ refused.remedy | plain }}){% endif %}.</p>{% else %}{{ listed(listing) }}{% endif %}
<p><a href="{{ url('pipelines', one.pipeline, 'events') }}">Its events</a> · <a href="{{ url('pipelines', one.pipeline, 'log') }}">its operator log</a></p>
{% endblock %}
"""


def _read(asked: Asked) -> Answer:
    found = asked.pipelines.find(asked.named["pipeline"])
    from seriatim.operations.pipelines.groups import groups  # noqa: PLC0415 -- Spark is slow to import
    from seriatim.operations.pipelines.pipelines import counts_of  # noqa: PLC0415

    one = counts_of(found)
    state = asked.text("state")
    wanted = given(asked, PipelineGroupFilter) | {"waits": not (state or asked.text("all"))}
    rows: list[Any] = []
    refused = None
    try:
        rows = groups(found, wait=WAIT_S, starts_spark=False, **wanted)
    except ActionRefused as error:
        refused = error
    links = {"group": lambda row: ("pipelines", found.name, "groups", row.queue, row.group)}
    return Answer(
        COUNTS.object_of(one),
        title=f"Pipeline {one.pipeline}",
        listing=Rows(GROUP, rows, "Groups", links, nothing="No group stands still."),
        values={
            "one": one,
            "destinations": Rows(
                DESTINATIONS, one.destinations, "Destinations", nothing="It has released nothing yet."
            ),
            "refused": refused,
            # What asks the run has a batch made of that, after which a live page would ask again.
            "is_live": state in (None, *STOPPED) and asked.text("all") is None,
        },
    )


PAGE = Page(("pipelines/{pipeline}",), "Pipeline", _read, _TEMPLATE, fields=_FIELDS)
