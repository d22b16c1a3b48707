"""``seriatim schedules``: what the box publishes by itself, and when."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from seriatim.cli.table import Column, Table, json_only, json_option
from seriatim.cli.which import opened, which_box

if TYPE_CHECKING:
    from seriatim.box.views.schedules import ScheduleView

__all__ = ["SCHEDULES", "schedules"]

SCHEDULES: Table[ScheduleView] = Table(
    "A schedule",
    Column("schedule"),
    Column("state"),
    Column("cron"),
    Column("timezone", "time zone"),
    *json_only("type", "catch_up"),
    Column("next_at", "next"),
    Column("last_at", "last"),
    Column("last_message", "last message"),
    *json_only("published_at"),
    Column("published"),
    *json_only("failed_at"),
    Column("error", optional=True),
    *json_only("paused_at"),
    Column("paused_by", "paused by", optional=True),
    row="seriatim.box.views.schedules:ScheduleView",
    nothing="there are no schedules",
)


@click.command()
@which_box
@json_option("Print a JSON list.", SCHEDULES)
def schedules(*, dsn: str | None, schema: str, json_: bool) -> None:
    """List the schedules of a message box: when each publishes next, and what it has published last."""
    from seriatim.operations import schedules as operations  # noqa: PLC0415 -- the driver, when it is needed

    with opened(dsn, schema) as box:
        found = operations.schedules(box)
    SCHEDULES.print(found, json_=json_)
