"""``seriatim connection``: end a connection to a box's database."""

from __future__ import annotations

import json

import click

from seriatim.cli.commands.connections import CONNECTION
from seriatim.cli.options.group_help import Commands
from seriatim.cli.options.which import opened, which_box
from seriatim.cli.options.why import said, says_why
from seriatim.cli.shown.table import json_option
from seriatim.operations import connections as operations
from seriatim.pipeline.text.counted import counted

__all__ = ["connection"]


@click.group("connection", cls=Commands)
def connection() -> None:
    """End a connection to a box's database."""


@connection.command("end")
@click.argument("pid", type=click.IntRange(1))
@says_why
@which_box
@json_option("Print the connection as it was, as a JSON object.", CONNECTION)
def _end(pid: int, *, actor: str | None, reason: str | None, dsn: str | None, schema: str, json_: bool) -> None:
    """End the connection with the server process PID: its transaction is rolled back, and its messages are handed out again."""
    with opened(dsn, schema) as box:
        found = operations.end(box, pid, **said(actor, reason))
    if json_:
        click.echo(json.dumps(CONNECTION.object_of(found), indent=2))
        return
    freed = f"; {counted(found.locks, 'lock')} of groups and the like are free" if found.locks else ""
    click.echo(f"the connection {found.name or 'without a name'} (process {pid}) has ended{freed}")
