"""``seriatim unrouted``: which messages no destination wanted."""

from __future__ import annotations

import json
from pathlib import Path

import click

from seriatim.pipeline import file
from seriatim.runtime.set_aside import SetAside, read_set_aside

__all__ = ["unrouted"]


@click.command()
@click.argument("file_", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object a message, with its body.")
@click.option("--limit", type=click.IntRange(1), default=None, help="At most this many messages.")
def unrouted(file_: Path, *, as_json: bool, limit: int | None) -> None:
    """List what matched no destination.

    Reads the unrouted folder of the pipeline in FILE: messages for which no `where` was true, oldest first.
    """
    pipeline = file.load(file_)
    from seriatim.runtime.checkpoint import Checkpoint  # noqa: PLC0415 - imports Spark, which is slow

    folder = pipeline.unrouted or Checkpoint(pipeline.checkpoint).unrouted
    found = 0
    for message in read_set_aside(folder):
        if limit is None or found < limit:
            click.echo(json.dumps(message.fields, ensure_ascii=False) if as_json else _line(message))
        found += 1
    if not as_json:
        click.echo(f"{found:,} unrouted" if found else f"nothing is unrouted in {folder}")


def _line(message: SetAside) -> str:
    return f"{message.fields['location']} {message.fields['type'] or '(no type)'}  {message.message_id}"
