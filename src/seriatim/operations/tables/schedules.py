"""Schedules."""

from __future__ import annotations

from seriatim.box.views.schedules import ScheduleView
from seriatim.operations.tables.table import Column, Table, columns, json_only

SCHEDULES: Table[ScheduleView] = Table(
    "A schedule",
    *columns("schedule", "state", "cron"),
    Column("timezone", "time zone"),
    *json_only("type", "catch_up"),
    Column("next_at", "next"),
    Column("last_at", "last"),
    Column("last_message"),
    *json_only("published_at"),
    Column("published"),
    *json_only("failed_at"),
    Column("error", optional=True),
    *json_only("paused_at"),
    Column("paused_by", optional=True),
    row=ScheduleView,
    nothing="there are no schedules",
)
