"""``seriatim box apply``: apply the definitions of a file to a box."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from seriatim.box.definitions.change import Change
from seriatim.cli.options.option import flag
from seriatim.cli.options.which import opened, which_box
from seriatim.cli.shown.table import Column, Table, json_option, print_object
from seriatim.errors import UsageError
from seriatim.pipeline.files.box_file import examine, load

CHANGE: Table[Change] = Table("A change of a definition", row=Change)
APPLIED: Table[dict[str, object]] = Table(
    "Applied definitions",
    Column("file", None, kind="str", meaning="the file"),
    Column("applied", None, kind="bool", meaning="false: it was a dry run"),
    Column("changes", None, rows=CHANGE, meaning="the changes, in order"),
)


@click.command("apply")
@click.argument("file_", metavar="FILE", type=click.Path(path_type=Path))
@which_box
@flag("--prune", "Drop definitions that are not in the file.")
@flag("--yes", "With --prune: don't ask for confirmation.")
@flag("--dry-run", "Change nothing; list the changes that would be made.")
@json_option("Print one JSON object.", APPLIED)
def apply(file_: Path, *, dsn: str | None, schema: str, prune: bool, yes: bool, dry_run: bool, json_: bool) -> None:
    """Apply the definitions in FILE to a box, all or none; a second run changes nothing.

    Lists the changes. With --prune, shows what would be dropped and asks for confirmation first; without a terminal,
    --yes is required.
    """
    if not file_.is_file():  # then no box is made for it
        load(file_)
    with opened(dsn, schema, makes=True) as box:
        if prune and not dry_run:
            planned = box.apply(file_, prune=True, dry_run=True)
            drops = [one for one in planned if one.what == "dropped"]
            if drops and not yes:
                _ask(drops, json_)
        changes = box.apply(file_, prune=prune, dry_run=dry_run)
    for line in examine(file_)[0].remarks:
        click.echo(f"{click.style('warning', fg='yellow', bold=True)}: {line}", err=True)
    if json_:
        print_object(APPLIED, {"file": str(file_), "applied": not dry_run, "changes": changes})
        return
    for one in changes:
        click.echo(f"would have {one}" if dry_run else str(one))
    if not changes:
        click.echo("nothing to change")


def _ask(drops: Sequence[Change], json_: bool) -> None:
    listed = ", ".join(f"{one.kind} {one.name}" for one in drops)
    if json_ or not sys.stdin.isatty():
        raise UsageError(f"--prune would drop {listed}", remedy="give --yes to drop it without being asked")
    click.confirm(f"Drop {listed}?", abort=True)
