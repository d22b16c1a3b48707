"""``seriatim set-aside``: list the messages of a pipeline that were not released, with reasons."""

from __future__ import annotations

import json
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from seriatim.cli.moment import MOMENT
from seriatim.cli.show import plain_sequence
from seriatim.cli.table import Column, Table, json_option
from seriatim.runtime.pipelines.set_aside import SetAsideFilter, read_set_aside, reason_of

__all__ = ["WRITTEN", "printed_rows", "set_aside"]

_DISPOSITIONS = ("late", "duplicate", "invalid", "rejected", "dead")
#: How many people see unless they say.
_LIMIT = 100


#: As it was written by the pipeline, perhaps by an earlier version.
WRITTEN: Table[dict[str, Any]] = Table(
    "A message that a pipeline did not release",
    Column("destination", meaning="the destination; null: it has none"),
    Column("disposition", meaning="`late`, `duplicate`, `invalid`, `rejected`, `dead` or `unrouted`"),
    Column("reason", shown=reason_of, after="sequence", meaning="the reason; null: no `where` was true"),
    Column("message_id", "message", after="sequence", meaning="its id"),
    Column("type", meaning="its type"),
    Column("location", meaning="the location that received it"),
    Column("ticket", None, meaning="its `location`, `epoch` and `number`; null: it has none"),
    Column("group", meaning="the group's key"),
    Column(
        "sequence",
        shown=lambda row: plain_sequence(row["sequence"]),
        meaning="its position in its group, as its producer numbered it",
    ),
    Column("body", None, meaning="its body, if it is UTF-8"),
    Column("body_base64", None, meaning="its body in Base64, if it is not UTF-8"),
    more="the properties of the pipeline, by their names",
)
_SHOWN = WRITTEN.without("type", "location")


@click.command("set-aside")
@click.argument("file_", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--disposition", type=click.Choice(_DISPOSITIONS), help="Only messages with this disposition.")
@click.option("--group", metavar="KEY", help="Only messages of this group.")
@click.option("--location", metavar="NAME", help="Only messages that this location received.")
@click.option("--reason", metavar="TEXT", help="Only messages with this text in their reason.")
@click.option(
    "--since",
    type=MOMENT,
    help="Only messages set aside from this time on: a time such as '2026-03-01 14:30', or how long ago, such as 2h.",
)
@click.option("--until", type=MOMENT, help="Only messages set aside before this time, likewise.")
@json_option("Print one JSON object per message, with its body.", WRITTEN)
@click.option(
    "--limit", type=click.IntRange(1), default=None, help=f"List at most this many (default: {_LIMIT}; all as JSON)."
)
def set_aside(
    file_: Path,
    *,
    disposition: str | None,
    group: str | None,
    location: str | None,
    reason: str | None,
    since: datetime | None,
    until: datetime | None,
    json_: bool,
    limit: int | None,
) -> None:
    """List messages of a pipeline that were not released, with reasons.

    Reads the set-aside folder of the pipeline in FILE: messages that are late, duplicate, invalid, rejected
    or dead, oldest first. Held messages are not among them: they are not decided yet.
    """
    from seriatim.pipeline.files import pipeline_file  # noqa: PLC0415 -- what reads YAML and filters, when it is needed

    pipeline = pipeline_file.load(file_)
    from seriatim.runtime.pipelines.checkpoint import Checkpoint  # noqa: PLC0415 - imports Spark, which is slow

    folder = pipeline.set_aside or Checkpoint(pipeline.checkpoint).set_aside
    wanted = SetAsideFilter(disposition, group, location, reason, since, until)
    counts = printed_rows(_SHOWN, folder, wanted, json_=json_, limit=limit)
    if not json_:
        total = ", ".join(f"{counts[one]:,} {one}" for one in _DISPOSITIONS if counts[one])
        none = "nothing is set aside" if wanted == SetAsideFilter() else "nothing of this is set aside"
        click.echo(total or f"{none} in {folder}")


def printed_rows(
    table: Table[dict[str, Any]], folder: Path, wanted: SetAsideFilter, *, json_: bool, limit: int | None
) -> Counter[str]:
    """Print messages of a folder, for people below headings; how many there are in all, by disposition."""
    most = _LIMIT if limit is None and not json_ else limit
    counts: Counter[str] = Counter()
    shown: list[dict[str, Any]] = []
    for place, message in enumerate(read_set_aside(folder, wanted=wanted)):
        counts[message.disposition] += 1
        if most is not None and place >= most:
            continue
        if json_:
            click.echo(json.dumps(table.object_of(message.fields), ensure_ascii=False))
        else:
            shown.append(message.fields)
    if shown:
        for line in table.lines(shown):
            click.echo(line)
    if not json_ and counts.total() > len(shown):
        click.echo(f"stopped at {len(shown):,} of {counts.total():,}: --limit N lists more", err=True)
    return counts
