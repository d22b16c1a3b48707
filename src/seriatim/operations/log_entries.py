"""Entries of operator logs, of message boxes and of pipelines, as one table shows them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Unpack

from seriatim.box.box import MessageBox
from seriatim.operations.log_filter import LogChoice
from seriatim.operations.operator_log import operator_log

__all__ = ["LogEntry", "entries_of_box"]


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


def entries_of_box(
    box: MessageBox, queue: str | None = None, *, limit: int = 100, **chosen: Unpack[LogChoice]
) -> list[LogEntry]:
    """Entries of a box's operator log, newest first; see `operator_log`."""
    return [
        LogEntry(
            one.operation_id,
            one.at,
            "",
            one.actor,
            one.action,
            one.queue,
            one.group,
            "done",
            one.reason,
            one.details,
            role=one.role,
        )
        for one in operator_log(box, queue, limit=limit, **chosen)
    ]
