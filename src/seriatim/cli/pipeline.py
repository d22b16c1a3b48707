"""``seriatim pipeline``: what is done with a pipeline that isn't running."""

from __future__ import annotations

from pathlib import Path

import click

from seriatim.cli.group_help import Commands
from seriatim.cli.table import Column, Table, json_option

__all__ = ["MOVED", "pipeline"]

MOVED: Table[dict[str, object]] = Table(
    "A conversion of a checkpoint",
    Column("checkpoint", None, kind="str", meaning="the folder of the checkpoint"),
    Column("from_layout", None, kind="int", meaning="the layout that it had"),
    Column("layout", None, kind="int", meaning="the layout that it has now"),
    Column("converted", None, kind="bool", meaning="false: it had the present layout, and nothing was done"),
    Column("former", None, kind="str", meaning="Spark's part as it was; null: nothing was done"),
)


@click.group("pipeline", cls=Commands)
def pipeline() -> None:
    """Convert the checkpoint of a pipeline."""


@pipeline.command("move")
@click.argument("file_", metavar="FILE", type=click.Path(path_type=Path))
@json_option("Print one JSON object.", MOVED)
def move(file_: Path, *, json_: bool) -> None:
    """Convert the checkpoint of the pipeline in FILE to the layout of this version.

    The pipeline must be stopped, and its last batch finished. What it holds, its counters and its place in the
    sources stay. Spark's part of the checkpoint is kept as it was, under another name.
    """
    from seriatim.pipeline.files import pipeline_file  # noqa: PLC0415 -- what reads YAML and filters, when it is needed

    declared = pipeline_file.load(file_)
    from seriatim.runtime.pipelines.checkpoint import LAYOUT  # noqa: PLC0415 - imports Spark, which is slow
    from seriatim.runtime.pipelines.move import move as convert  # noqa: PLC0415

    done = convert(declared)
    if json_:
        told = {"checkpoint": str(done.checkpoint), "from_layout": done.layout, "layout": LAYOUT}
        former = None if done.former is None else str(done.former)
        MOVED.print_object({**told, "converted": done.former is not None, "former": former})
        return
    if done.former is None:
        click.echo(f"nothing to do: {done.checkpoint} has layout {done.layout}, which this version reads")
        return
    click.echo(f"converted {done.checkpoint} from layout {done.layout}")
    click.echo(f"the former state is {done.former}: delete it when the pipeline has run")
