"""``seriatim pipeline``: what is done with a pipeline that isn't running."""

from __future__ import annotations

from pathlib import Path

import click

from seriatim.cli.group_help import Commands

__all__ = ["pipeline"]


@click.group("pipeline", cls=Commands)
def pipeline() -> None:
    """Convert the checkpoint of a pipeline."""


@pipeline.command("move")
@click.argument("file_", metavar="FILE", type=click.Path(path_type=Path))
def move(file_: Path) -> None:
    """Convert the checkpoint of the pipeline in FILE to the layout of this version.

    The pipeline must be stopped, and its last batch finished. What it holds, its counters and its place in the
    sources stay. Spark's part of the checkpoint is kept as it was, under another name.
    """
    from seriatim.pipeline.files import pipeline_file  # noqa: PLC0415 -- what reads YAML and filters, when it is needed

    declared = pipeline_file.load(file_)
    from seriatim.runtime.pipelines.move import move as convert  # noqa: PLC0415 - imports Spark, which is slow

    done = convert(declared)
    if done.former is None:
        click.echo(f"nothing to do: {done.checkpoint} has layout {done.layout}, which this version reads")
        return
    click.echo(f"converted {done.checkpoint} from layout {done.layout}")
    click.echo(f"the former state is {done.former}: delete it when the pipeline has run")
