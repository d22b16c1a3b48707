"""Processes that work on queues: with what in hand, since when, under which lease; and queues on which nobody works."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from seriatim.console.lists import list_page
from seriatim.console.page import Asked, Rows
from seriatim.operations import workers
from seriatim.operations.tables.table import Column, Table
from seriatim.operations.tables.workers import WORKER

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


def _values(asked: Asked, rows: Sequence[Any]) -> Mapping[str, Any]:
    held = [(one, work) for one in rows for work in one.in_hand]
    links: dict[str, Any] = {
        "group": lambda one: None if one[1].group is None else ("groups", one[0].queue, one[1].group),
        "message": lambda one: None if one[1].message_id is None else ("messages", one[1].message_id),
    }
    return {
        "idle": [one.queue for one in workers.idle_queues(asked.box)],
        "in_hand": Rows(_IN_HAND, held, "In hand", links=links, nothing="Nobody has a message in hand."),
    }


PAGE = list_page(
    "Workers",
    workers.workers,
    WORKER,
    shown=WORKER.without("longest"),
    values=_values,
    nothing="No process works on a queue.",
    hint=Markup("Start one: <code>seriatim work QUEUE --handler MODULE:FUNCTION</code>."),
    template="workers.html",
    section="Work",
)
