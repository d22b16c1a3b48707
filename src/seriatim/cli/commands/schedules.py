"""``seriatim schedules``: what the box publishes by itself, and when."""

from __future__ import annotations

import click

from seriatim.cli.options.which import opened, which_box
from seriatim.cli.shown.table import Table, json_option
from seriatim.operations import schedules as operations
from seriatim.operations.tables import schedules as declared

__all__ = ["SCHEDULES", "schedules"]

SCHEDULES = Table.of(declared.SCHEDULES)


@click.command()
@which_box
@json_option("Print a JSON list.", SCHEDULES)
def schedules(*, dsn: str | None, schema: str, json_: bool) -> None:
    """List the schedules of a message box: when each publishes next, and what it has published last."""
    with opened(dsn, schema) as box:
        found = operations.schedules(box)
    SCHEDULES.print(found, json_=json_)
