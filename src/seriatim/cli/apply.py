"""``seriatim box apply``: apply the definitions of a file to a box."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from seriatim.cli.which import as_json, opened, which_box
from seriatim.errors import UsageError

if TYPE_CHECKING:
    from seriatim.box.definitions.change import Change

__all__ = ["apply"]


@click.command("apply")
@click.argument("file_", metavar="FILE", type=click.Path(path_type=Path))
@which_box
@click.option("--prune", is_flag=True, help="Drop definitions that are not in the file.")
@click.option("--yes", is_flag=True, help="With --prune: don't ask for confirmation.")
@click.option("--dry-run", is_flag=True, help="Change nothing; list the changes that would be made.")
@click.option("--json", "json_", is_flag=True, help="Print one JSON object.")
def apply(file_: Path, *, dsn: str | None, schema: str, prune: bool, yes: bool, dry_run: bool, json_: bool) -> None:
    """Apply the definitions in FILE to a box, all or none; a second run changes nothing.

    Lists the changes. With --prune, shows what would be dropped and asks for confirmation first; without a terminal,
    --yes is required.
    """
    from seriatim.pipeline.files.box_file import load  # noqa: PLC0415 -- reads YAML, when it is needed

    if not file_.is_file():  # then no box is made for it
        load(file_)
    with opened(dsn, schema, makes=True) as box:
        if prune and not dry_run:
            planned = box.apply(file_, prune=True, dry_run=True)
            drops = [one for one in planned if one.what == "dropped"]
            if drops and not yes:
                _ask(drops, json_)
        changes = box.apply(file_, prune=prune, dry_run=dry_run)
    if json_:
        click.echo(as_json({"file": str(file_), "applied": not dry_run, "changes": [asdict(one) for one in changes]}))
        return
    for one in changes:
        click.echo(f"would have {one}" if dry_run else str(one))
    if not changes:
        click.echo("nothing to change")


def _ask(drops: Sequence[Change], json_: bool) -> None:
    """Ask for confirmation of the drops.

    Raises:
        UsageError: nobody is there to ask.
    """
    listed = ", ".join(f"{one.kind} {one.name}" for one in drops)
    if json_ or not sys.stdin.isatty():
        raise UsageError(f"--prune would drop {listed}", remedy="give --yes to drop it without being asked")
    click.confirm(f"Drop {listed}?", abort=True)
