"""The schedules of a box, with their results."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from seriatim.box.connection.access import Transaction
from seriatim.box.definitions.schedules import schedule_from

#: `serve` looks every few seconds, workers once a minute.
_LATE = "180 seconds"


@dataclass(frozen=True, slots=True)
class ScheduleView:
    """A schedule, and what it has published.

    Args:
        schedule: its name.
        state: `waiting`; `paused`; `failed`: it could publish nothing; `overdue`: nobody publishes for it; `over`: no due time
            comes any more.
        cron: its cron text; None, as for the next three, if its definition can't be read.
        timezone: the time zone of `cron`.
        type: the type of its messages.
        catch_up: `one`, `all` or `none`.
        next_at: the due time that comes next; None: it is paused, or there is none.
        last_at: the due time of its last message; None: it has published none.
        last_message: the id of its last message, or of the message that waited in its place (``unique_key``).
        published_at: when it published last.
        published: how many messages it has published.
        failed_at: since when it could publish nothing.
        error: why it could publish nothing.
        paused_at: when it was paused.
        paused_by: who paused it.
    """

    schedule: str
    state: str
    cron: str | None
    timezone: str | None
    type: str | None
    catch_up: str | None
    next_at: datetime | None
    last_at: datetime | None
    last_message: str | None
    published_at: datetime | None
    published: int
    failed_at: datetime | None
    error: str | None
    paused_at: datetime | None
    paused_by: str | None


def schedules_of(transaction: Transaction) -> list[ScheduleView]:
    return [_view(**row) for row in transaction.rows("schedule_rows", dict, late=_LATE)]


def _view(definition: str, *, is_overdue: bool, **row: Any) -> ScheduleView:
    declared = schedule_from(definition)
    fields: dict[str, Any] = {
        name: None if declared is None else getattr(declared, name) for name in ("cron", "timezone", "type", "catch_up")
    }
    if row["paused_at"] is not None:
        state = "paused"
    elif row["error"] is not None:
        state = "failed"
    elif row["next_at"] is None:
        state = "over"
    else:
        state = "overdue" if is_overdue else "waiting"
    return ScheduleView(state=state, **fields, **row)
