"""``seriatim transmission``: the streams between this box and others."""

from __future__ import annotations

import click

from seriatim.cli.options.which import opened, which_box
from seriatim.cli.shown.table import Table, json_option
from seriatim.operations import links
from seriatim.operations.tables import links as declared

__all__ = ["STREAMS", "transmission"]

STREAMS = Table.of(declared.STREAMS)


@click.command()
@click.option("--link", "name", default=None, help="Only streams of this link.")
@click.option("--waiting", is_flag=True, help="Only streams on which something isn't acknowledged.")
@click.option(
    "--limit", default=100, show_default=True, type=click.IntRange(1, 100_000), help="List at most this many."
)
@which_box
@json_option("Print a JSON list.", STREAMS)
def transmission(*, name: str | None, waiting: bool, limit: int, dsn: str | None, schema: str, json_: bool) -> None:
    """List the streams over links, those that wait first, each with its reason."""
    with opened(dsn, schema) as box:
        found = links.transmission(box, name, waiting=waiting, limit=limit)
    STREAMS.print(found, json_=json_, limit=limit)
