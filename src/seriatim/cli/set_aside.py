"""``seriatim set-aside``: list the messages of a pipeline that were not released, with reasons."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import click

from seriatim.cli.plain import in_lines
from seriatim.cli.table import Column, Table, json_option
from seriatim.runtime.pipelines.set_aside import SetAside, read_set_aside

__all__ = ["WRITTEN", "set_aside"]

_DISPOSITIONS = ("late", "duplicate", "invalid", "rejected", "dead")
#: As it was written by the pipeline, perhaps by an earlier version.
WRITTEN: Table[dict[str, Any]] = Table(
    "A message that a pipeline did not release",
    Column("destination", None, meaning="the destination; null: it has none"),
    Column("disposition", None, meaning="`late`, `duplicate`, `invalid`, `rejected`, `dead` or `unrouted`"),
    Column("reason", None, meaning="the reason; null: no `where` was true"),
    Column("message_id", None, meaning="its id"),
    Column("type", None, meaning="its type"),
    Column("location", None, meaning="the location that received it"),
    Column("ticket", None, meaning="its `location`, `epoch` and `number`; null: it has none"),
    Column("group", None, meaning="the group's key"),
    Column("sequence", None, meaning="its position in its group, as its producer numbered it"),
    Column("body", None, meaning="its body, if it is UTF-8"),
    Column("body_base64", None, meaning="its body in Base64, if it is not UTF-8"),
    more="the properties of the pipeline, by their names",
)


@click.command("set-aside")
@click.argument("file_", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--disposition", type=click.Choice(_DISPOSITIONS), help="Only messages with this disposition.")
@json_option("Print one JSON object per message, with its body.", WRITTEN)
@click.option("--limit", type=click.IntRange(1), default=None, help="List at most this many.")
def set_aside(file_: Path, *, disposition: str | None, json_: bool, limit: int | None) -> None:
    """List messages of a pipeline that were not released, with reasons.

    Reads the set-aside folder of the pipeline in FILE: messages that are late, duplicate, invalid, rejected
    or dead, oldest first. Held messages are not among them: they are not decided yet.
    """
    from seriatim.pipeline.files import pipeline_file  # noqa: PLC0415 -- what reads YAML and filters, when it is needed

    pipeline = pipeline_file.load(file_)
    from seriatim.runtime.pipelines.checkpoint import Checkpoint  # noqa: PLC0415 - imports Spark, which is slow

    folder = pipeline.set_aside or Checkpoint(pipeline.checkpoint).set_aside
    counts: Counter[str] = Counter()
    for place, message in enumerate(read_set_aside(folder, disposition)):
        counts[message.disposition] += 1
        if limit is None or place < limit:
            click.echo(json.dumps(WRITTEN.object_of(message.fields), ensure_ascii=False) if json_ else _line(message))
    if not json_:
        total = ", ".join(f"{counts[one]:,} {one}" for one in _DISPOSITIONS if counts[one])
        click.echo(total or f"nothing is set aside in {folder}")


def _line(message: SetAside) -> str:
    group = "" if message.group is None else f" {message.group}"
    sequence = "" if message.sequence is None else f" {message.sequence}"
    # A row that can't be read says where it stands, and so does its id.
    reason = message.reason.removeprefix(f"{message.message_id.partition('/')[2]}: ")
    place = f"{message.disposition:<9} {message.destination or '(no destination)'}{group}{sequence}"
    return in_lines(f"{place}  {message.message_id}: {reason}")
