"""Processes that work on queues."""

from __future__ import annotations

from seriatim.box.views.workers import WorkerView, WorkView
from seriatim.operations.tables.table import Column, Table, columns, text_only
from seriatim.pipeline.text.moment import local, period_of


def ago(seconds: float) -> str:
    """An age for people, such as ``2 min ago``."""
    return f"{period_of(seconds)} ago"


def longest(worker: WorkerView) -> str | None:
    """What a worker has had in hand for longest, in words."""
    if not worker.in_hand:
        return None
    one = worker.in_hand[0]
    told = [
        f"group {one.group}" if one.group is not None else "",
        f"message {one.message_id}" if one.message_id else "",
    ]
    if one.attempt is not None and one.attempt > 1:
        told.append(f"attempt {one.attempt}")
    return f"{', '.join(part for part in told if part)} since {local(one.since)}".strip()


WORK: Table[WorkView] = Table("A message in a worker's hand", row=WorkView)
WORKER: Table[WorkerView] = Table(
    "A worker",
    *columns("queue", "host"),
    Column("pid", shown=lambda one: str(one.pid)),
    Column("started_at", "since"),
    Column("seen_at", "seen", shown=lambda one: f"{ago(one.silent_s)}{', silent' if one.is_silent else ''}"),
    *columns("workers", "run_length"),
    Column("busy", "in hand"),
    Column("in_hand", None, rows=WORK),
    text_only("longest", longest, "what it has had in hand for longest"),
    row=WorkerView,
    nothing="no process works on a queue",
)
