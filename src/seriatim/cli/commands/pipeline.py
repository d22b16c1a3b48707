"""``seriatim pipeline``: what is done with a whole pipeline."""

from __future__ import annotations

from pathlib import Path

import click

from seriatim.cli.commands.run import SUMMARY
from seriatim.cli.options.group_help import Commands
from seriatim.cli.options.option import flag, option
from seriatim.cli.options.why import exit_if
from seriatim.cli.shown.show import waiting_line
from seriatim.cli.shown.table import Column, Table, json_option, print_object, print_rows
from seriatim.operations.tables.pipelines import COUNTS, DESTINATIONS, TICKETS
from seriatim.operations.tables.pipelines import GROUP as PIPELINE_GROUP
from seriatim.pipeline.files import pipeline_file
from seriatim.pipeline.text.counted import counted

MOVED: Table[dict[str, object]] = Table(
    "A move to another number of buckets",
    Column("checkpoint", None, kind="str", meaning="the folder of the checkpoint"),
    Column("from_buckets", None, kind="int", meaning="the number of buckets that it had"),
    Column("buckets", None, kind="int", meaning="the number that it has now"),
    Column("moved", None, kind="bool", meaning="false: nothing was done"),
)

_DRAINED: Table[dict[str, object]] = Table(
    "A pipeline that was drained",
    Column("summary", None, rows=SUMMARY, meaning="the run that took in the rest"),
    Column("groups", None, rows=PIPELINE_GROUP, meaning="the groups that still hold messages"),
)
_PIPELINE = COUNTS.extended(
    "A pipeline",
    Column(
        "tickets",
        None,
        rows=TICKETS,
        kind="list[NextTicket] | None",
        meaning="with --tickets; else null",
        optional=True,
    ),
)
#: The exit code where something is still held, or waits for a port.
_HELD = 3
_patience = option(
    "--timeout",
    "How long to wait for the end of the run.",
    type=click.FloatRange(0, min_open=True),
    default=600.0,
    metavar="SECONDS",
)

pipeline = Commands("pipeline")


@pipeline.command("list")
@json_option("Print a JSON list.", COUNTS)
def list_(*, json_: bool) -> None:
    """List the pipelines with a checkpoint in this folder: whether each runs, its last batch, and what it holds."""
    from seriatim.operations.pipelines.pipelines import pipelines  # noqa: PLC0415 -- Spark is slow to import

    print_rows(COUNTS, pipelines(), json_=json_)


@pipeline.command("show")
@click.argument("name", metavar="NAME_OR_FILE")
@flag("--tickets", "With the next ticket of each location; this starts Spark.")
@json_option("Print one JSON object.", _PIPELINE)
def show(name: str, *, tickets: bool, json_: bool) -> None:
    """Show a pipeline after its last batch, with the counts of each destination from its first batch on.

    With --tickets also the next ticket of each location at which it stamps.
    """
    from seriatim.operations.pipelines.pipelines import counts_of, next_tickets  # noqa: PLC0415 -- Spark is slow to import

    found = counts_of(name)
    following = next_tickets(name) if tickets else None
    if json_:
        print_object(_PIPELINE, found, tickets=following)
        return
    print_rows(COUNTS, [found])
    click.echo()
    print_rows(DESTINATIONS, found.destinations)
    if following is not None:
        click.echo("\nnext tickets:")
        print_rows(TICKETS, following)


@pipeline.command("move")
@click.argument("file_", metavar="FILE", type=click.Path(path_type=Path))
@json_option("Print one JSON object.", MOVED)
def move(file_: Path, *, json_: bool) -> None:
    """Move the checkpoint of the pipeline in FILE to the number of buckets that FILE says.

    The pipeline must be stopped, and its last batch finished. What it holds, its counters and its place in the
    sources stay.
    """
    declared = pipeline_file.load(file_)
    from seriatim.runtime.pipelines.move import move as to_buckets  # noqa: PLC0415 - imports Spark, which is slow

    done = to_buckets(declared)
    if json_:
        told = {"checkpoint": str(done.checkpoint), "from_buckets": done.former_buckets, "buckets": done.buckets}
        print_object(MOVED, {**told, "moved": done.is_moved})
    elif done.is_moved:
        click.echo(f"moved {done.checkpoint} from {counted(done.former_buckets, 'bucket')} to {done.buckets:,}")
    else:
        click.echo(f"nothing to do: {done.checkpoint} has {counted(done.buckets, 'bucket')}")


@pipeline.command("stop")
@click.argument("name", metavar="NAME_OR_FILE")
@_patience
def stop(name: str, *, timeout: float) -> None:
    """End the run of a pipeline after its present batch, and wait for its end.

    The next run goes on there; nothing that is held is lost. It doesn't matter on which machine the run is, as long as it shares the
    checkpoint.
    """
    from seriatim.operations.pipelines.found import find  # noqa: PLC0415 -- Spark is slow to import
    from seriatim.runtime.pipelines.drain import stop as end  # noqa: PLC0415

    found = find(name)
    ended = end(found.place, patience=timeout)
    click.echo(f"{found.name}: {'stopped; the next run goes on here' if ended else 'was not running'}")


@pipeline.command("drain")
@click.argument("name", metavar="NAME_OR_FILE")
@_patience
@json_option("Print one JSON object.", _DRAINED)
def drain(name: str, *, timeout: float, json_: bool) -> None:
    """Take in what is there now, let all leave that can, and end the pipeline.

    A run of it is ended after its batch, and this command takes in the rest. Nothing that is held is lost. Messages that come
    meanwhile wait for the next run.

    \b
    Exit codes:
      0  nothing is held
      3  a group still holds messages: each is listed; or messages wait for a port
    """  # noqa: D301 -- click's mark of lines that stay as they are
    from seriatim.operations.pipelines.found import find  # noqa: PLC0415 -- Spark is slow to import
    from seriatim.operations.pipelines.groups import Group  # noqa: PLC0415
    from seriatim.runtime.pipelines.drain import drain as end  # noqa: PLC0415

    found = find(name)
    done = end(found.declared, found.place, patience=timeout)
    groups = [Group.of(one) for one in done.groups]
    if json_:
        print_object(_DRAINED, {"summary": done.summary, "groups": groups})
    else:
        click.echo(f"{found.name}: drained, {counted(done.summary.batches, 'batch')} in {done.summary.seconds:.1f} s")
        for one in done.summary.waiting:
            click.echo(waiting_line(one), err=True)
        if groups:
            messages = counted(sum(one.held for one in groups), "message")
            click.echo(f"{counted(len(groups), 'group still holds', 'groups still hold')} {messages}:")
            print_rows(PIPELINE_GROUP.only("queue", "group", "state", "missing", "held", "since", "reason"), groups)
        else:
            click.echo("nothing is held")
    exit_if(groups or done.summary.undelivered, _HELD)
