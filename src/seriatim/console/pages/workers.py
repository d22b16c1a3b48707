"""Processes that work on queues: with what in hand, since when, under which lease; and queues on which nobody works."""

from __future__ import annotations

from seriatim.console.page import Answer, Asked, Field, Listing, Page
from seriatim.operations import groups, workers
from seriatim.operations.tables.groups import GROUPS
from seriatim.operations.tables.workers import WORKER

__all__ = ["PAGE"]

_FIELDS = (Field("queue", "Queue"),)
_LEASES = GROUPS.only("queue", "group", "since", "state")
_TEMPLATE = """
{% extends "base.html" %}
{% from "parts.html" import filters, listed with context %}
{% block main %}
<h1>Workers</h1>
{{ filters(fields, asked) }}
{% if idle %}<p class="law broken" role="status"><strong>Nobody works on {{ idle | join(", ") | plain }}</strong>, where messages are ready.</p>{% endif %}
{{ listed(listing) }}
<h2>Groups in hand</h2>
<p class="about">Locked in a turn, or under a lease.</p>
{{ listed(leases) }}
{% endblock %}
"""


def _read(asked: Asked) -> Answer:
    queue = asked.text("queue")
    rows = workers.workers(asked.box, queue)
    held = groups.groups(asked.box, queue, state="locked", limit=asked.limit)
    links = {"group": lambda one: ("groups", one.queue, one.group)}
    return Answer(
        WORKER.objects_of(rows),
        fields=_FIELDS,
        listing=Listing(WORKER, rows, "Workers", nothing="No process works on a queue."),
        values={
            "idle": [one.queue for one in workers.idle_queues(asked.box)],
            "leases": Listing(_LEASES, held, "Groups in hand", links=links, nothing="Nobody has a group in hand."),
        },
    )


PAGE = Page(("workers",), "Workers", _read, _TEMPLATE, section="Work")
