"""``seriatim check``: is a pipeline file right?"""

from __future__ import annotations

import json
from pathlib import Path

import click

from seriatim.errors import DeclarationError
from seriatim.pipeline import file
from seriatim.pipeline.declaration import Pipeline

__all__ = ["check"]


@click.command()
@click.argument("file_", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of lines.")
@click.pass_context
def check(context: click.Context, file_: Path, *, as_json: bool) -> None:
    """Validate a pipeline file.

    Tells every fault of FILE at once, each with its line, and starts nothing. Exits with 2 if there is any.
    """
    faults = file.check(file_)
    if as_json:
        click.echo(json.dumps(_as_json(file_, faults), indent=2))
    elif faults:
        for fault in faults:
            click.echo(str(fault), err=True)
        click.echo(f"{file_}: {len(faults)} fault{'s' if len(faults) > 1 else ''}", err=True)
    else:
        _describe(file_, file.load(file_))
    if faults:
        context.exit(2)


def _as_json(path: Path, faults: list[DeclarationError]) -> dict[str, object]:
    return {
        "file": str(path),
        "ok": not faults,
        "faults": [{"where": one.where, "what": one.what, "remedy": one.remedy, "code": one.code} for one in faults],
    }


def _describe(path: Path, pipeline: Pipeline) -> None:
    click.echo(f"{path}: ok")
    click.echo(f"  pipeline {pipeline.name}, checkpoint {pipeline.checkpoint}")
    for received in pipeline.receive:
        click.echo(f"  receive  {received.location}: {received.source.format} files in {received.source.path}")
    for destination in pipeline.route:
        port, policy = destination.deliver, destination.queue.policy
        click.echo(
            f"  deliver  {destination.queue.name}: {policy.name}, {port.format} files in {port.path}, exactly once"
        )
