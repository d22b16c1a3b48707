"""``seriatim connections`` and ``seriatim connection``: list connections; end a connection to a box's database."""

from __future__ import annotations

import click

from seriatim.box.box import MessageBox
from seriatim.cli.options.group_help import Commands
from seriatim.cli.options.listing import list_command
from seriatim.cli.options.which import looks_at_box
from seriatim.cli.options.why import Why, says_why
from seriatim.cli.shown.table import print_row
from seriatim.operations import connections as operations
from seriatim.operations.tables.connections import CONNECTION
from seriatim.pipeline.text.counted import counted

connections = list_command("connections", operations.connections, CONNECTION)

connection = Commands("connection", help="End a connection to a box's database.")


@connection.command("end")
@click.argument("pid", type=click.IntRange(1))
@says_why
@looks_at_box(CONNECTION, told="Print the connection as it was, as a JSON object.")
def end(box: MessageBox, pid: int, *, why: Why, json_: bool) -> None:
    """End the connection with the server process PID: its transaction is rolled back, and its messages are handed out again."""
    found = operations.end(box, pid, **why())
    freed = f"; {counted(found.locks, 'lock')} of groups and the like are free" if found.locks else ""
    print_row(
        CONNECTION,
        found,
        f"the connection {found.name or 'without a name'} (process {pid}) has ended{freed}",
        json_=json_,
    )
