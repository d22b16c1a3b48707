"""Schedules."""

from __future__ import annotations

from seriatim.box.views.schedules import ScheduleView
from seriatim.operations.tables.table import Column, Table, columns

SCHEDULES: Table[ScheduleView] = Table(
    "A schedule",
    *columns("schedule", "state", "cron"),
    Column("timezone", "time zone"),
    Column("next_at", "next"),
    Column("last_at", "last"),
    *columns("last_message", "published"),
    *columns("error", "paused_by", optional=True),
    row=ScheduleView,
    nothing="there are no schedules",
)
