"""``seriatim workers``: list the processes that work on queues."""

from __future__ import annotations

import click

from seriatim.cli.options.which import opened, which_box
from seriatim.cli.shown.table import Table, json_option
from seriatim.operations import workers as operations
from seriatim.operations.tables import workers as declared

__all__ = ["WORKER", "ago", "longest", "workers"]

WORKER = Table.of(declared.WORKER)
ago = declared.ago
longest = declared.longest


@click.command()
@click.option("--queue", default=None, metavar="QUEUE", help="Only processes that work on this queue.")
@which_box
@json_option("Print a JSON list.", WORKER)
def workers(*, queue: str | None, dsn: str | None, schema: str, json_: bool) -> None:
    """List the processes that work on queues: where, since when, with what in hand, and when they were last seen.

    Each process tells of itself every 5 seconds. One that is silent for longer is frozen or dead, or its machine is cut
    off; an hour later it is forgotten.
    """
    with opened(dsn, schema) as box:
        found = operations.workers(box, queue)
    WORKER.print(found, json_=json_)
