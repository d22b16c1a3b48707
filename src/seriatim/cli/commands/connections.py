"""``seriatim connections``: list the connections to a box's database."""

from __future__ import annotations

import click

from seriatim.cli.options.which import opened, which_box
from seriatim.cli.shown.table import Table, json_option
from seriatim.operations import connections as operations
from seriatim.operations.tables import connections as declared

__all__ = ["CONNECTION", "connections"]

CONNECTION = Table.of(declared.CONNECTION)


@click.command()
@which_box
@json_option("Print a JSON list.", CONNECTION)
def connections(*, dsn: str | None, schema: str, json_: bool) -> None:
    """List the connections to a box's database: whose, since when in a transaction, and how many groups it keeps locked.

    A transaction that was forgotten keeps its groups locked: end its connection with `seriatim connection end PID`.
    """
    with opened(dsn, schema) as box:
        CONNECTION.print(operations.connections(box), json_=json_)
