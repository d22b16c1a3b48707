"""Entries of operator logs, of message boxes and of pipelines, as one table shows them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from seriatim.box.connection.access import Transaction
from seriatim.box.views.operations_done import LogFilter, logged
from seriatim.operations.listing import listed


@dataclass(frozen=True, slots=True)
class LogEntry:
    """An entry of an operator log: of a message box, or of a pipeline.

    Args:
        operation_id: its number in a box; the id of a command to a pipeline.
        at: the time of the action; of a command that is queued, when it was written.
        pipeline: the pipeline; "": it is of a message box.
        actor: the actor, as the caller gave it.
        action: the action.
        queue: the queue, or the destination.
        group: the group's key.
        result: of a pipeline: `done`, `refused`, `unknown` (no such group), `repeated` or `queued`; of a box: `done`.
        reason: the actor's reason.
        details: the action's arguments and result.
        batch: the batch in which a pipeline obeyed it; None: it is queued, or of a box.
        role: of a box: the PostgreSQL role that had logged in.
    """

    operation_id: int | str
    at: datetime
    pipeline: str
    actor: str
    action: str
    queue: str | None
    group: str | None
    result: str
    reason: str
    details: Mapping[str, Any]
    batch: int | None = None
    role: str | None = None


@listed(LogFilter, without=("before",))
def entries_of_box(transaction: Transaction, chosen: LogFilter) -> list[LogEntry]:
    """Entries of a box's operator log, newest first."""
    return [
        LogEntry(pipeline="", result="done", **{one.name: getattr(entry, one.name) for one in fields(entry)})
        for entry in logged(transaction, chosen)
    ]
