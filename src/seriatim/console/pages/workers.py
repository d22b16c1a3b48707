"""Processes that work on queues: with what in hand, since when, under which lease; and queues on which nobody works."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from seriatim.console.filters import QUEUE
from seriatim.console.page import Answer, Asked, Listing, Page
from seriatim.operations import workers
from seriatim.operations.tables.table import Column, Table
from seriatim.operations.tables.workers import WORKER

__all__ = ["PAGE"]

_FIELDS = (QUEUE,)
_IN_HAND: Table[tuple[workers.WorkerView, workers.WorkView]] = Table(
    "A message in hand",
    Column("queue", value=lambda one: one[0].queue),
    Column("group", value=lambda one: one[1].group),
    Column("message", value=lambda one: one[1].message_id),
    Column("attempt", value=lambda one: one[1].attempt),
    Column("since", value=lambda one: one[1].since),
    Column("by", value=lambda one: f"{one[0].host}:{one[0].pid}"),
    Column("how", value=lambda one: "under a lease" if one[0].mode == "leased" else "in a turn"),
)
_TEMPLATE = "workers.html"


def _read(asked: Asked) -> Answer:
    queue = asked.text("queue")
    rows = workers.workers(asked.box, queue)
    held = [(one, work) for one in rows for work in one.in_hand]
    links: dict[str, Any] = {
        "group": lambda one: None if one[1].group is None else ("groups", one[0].queue, one[1].group),
        "message": lambda one: None if one[1].message_id is None else ("messages", one[1].message_id),
    }
    return Answer(
        WORKER.objects_of(rows),
        listing=Listing(
            WORKER.without("longest"),
            rows,
            "Workers",
            nothing="No process works on a queue.",
            hint=Markup("Start one: <code>seriatim work QUEUE --handler MODULE:FUNCTION</code>."),
        ),
        values={
            "idle": [one.queue for one in workers.idle_queues(asked.box)],
            "in_hand": Listing(_IN_HAND, held, "In hand", links=links, nothing="Nobody has a message in hand."),
        },
    )


PAGE = Page(("workers",), "Workers", _read, _TEMPLATE, section="Work", fields=_FIELDS)
