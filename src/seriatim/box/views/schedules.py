"""The schedules of a box, with what has become of them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from seriatim.box.connection.access import Transaction
from seriatim.box.definitions.schedules import schedule_from
from seriatim.pipeline.types.schedule import Schedule

__all__ = ["ScheduleView", "schedules_of"]

#: `serve` looks every few seconds, workers once a minute.
_LATE = "180 seconds"


@dataclass(frozen=True, slots=True)
class ScheduleView:
    """A schedule, and what it has published.

    Args:
        schedule: its name.
        declared: its definition; None if that can't be read.
        next_at: the due time that comes next; None: it is paused, or there is none any more.
        last_at: the due time of its last message; None: it has published none.
        last_message: the id of its last message, or of the message that waited in its place (``unique_key``).
        published_at: when it published last.
        published: how many messages it has published.
        failed_at: since when it could publish nothing.
        error: why it could publish nothing.
        paused_at: when it was paused.
        paused_by: who paused it.
        is_overdue: whether its time has passed for minutes, because nobody is there who publishes.
    """

    schedule: str
    declared: Schedule | None
    next_at: datetime | None
    last_at: datetime | None
    last_message: str | None
    published_at: datetime | None
    published: int
    failed_at: datetime | None
    error: str | None
    paused_at: datetime | None
    paused_by: str | None
    is_overdue: bool

    @property
    def state(self) -> str:
        """`paused`, `failed`, `overdue`, `over` (no time comes any more) or `waiting`."""
        if self.paused_at is not None:
            return "paused"
        if self.error is not None:
            return "failed"
        if self.next_at is None:
            return "over"
        return "overdue" if self.is_overdue else "waiting"


def schedules_of(transaction: Transaction) -> list[ScheduleView]:
    """The schedules of a box by name."""
    rows = transaction.rows("schedule_rows", dict, late=_LATE)
    return [ScheduleView(declared=schedule_from(row.pop("definition")), **row) for row in rows]
