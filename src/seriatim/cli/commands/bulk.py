"""``seriatim bulk``: list and show actions on many groups that the box keeps, follow one, begin one, or cancel one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import click

from seriatim.box.box import MessageBox
from seriatim.cli.options.group_help import Commands
from seriatim.cli.options.listing import list_command, options_of
from seriatim.cli.options.option import flag
from seriatim.cli.options.own_name import own_name
from seriatim.cli.options.which import acts_on_box, looks_at_box, on_box
from seriatim.cli.options.why import Why, exit_if
from seriatim.cli.shown.progress import shown_portions
from seriatim.cli.shown.table import json_option, print_object, print_row, print_rows, tell
from seriatim.operations import bulk_operations as operations
from seriatim.operations.bulk_operations import BulkOperation
from seriatim.operations.tables.bulk import BULK_GROUPS, BULK_OPERATIONS
from seriatim.pipeline.text.counted import counted

#: The most groups without an action that are shown at the end.
_TOLD = 10
_number = click.argument("number", type=click.IntRange(1, 2**63 - 1))
_no_wait = flag("--no-wait", "Don't work on it; leave it to `seriatim serve` and workers.")

bulk = Commands("bulk")
bulk.add_command(list_command("list", operations.bulk_operations, BULK_OPERATIONS))


@bulk.command("show")
@_number
@flag("--groups", "lists", "List its groups in place of the operation itself.")
@options_of(operations.bulk_groups)
@looks_at_box(BULK_OPERATIONS, BULK_GROUPS, told="Print one JSON object; with --groups a JSON list.")
def _show(box: MessageBox, number: int, *, lists: bool, json_: bool, **given: Any) -> None:
    """Show the bulk operation NUMBER: its progress, and the groups that were left out, each with the reason.

    With --groups or --result, list its groups.
    """
    found = operations.bulk_operation(box, number)
    if lists or given["result"] is not None:
        print_rows(BULK_GROUPS, operations.bulk_groups(box, number, **given), json_=json_, limit=given["limit"])
    elif json_:
        print_object(BULK_OPERATIONS, found)
    else:
        _tell(box, found)


@bulk.command("begin")
@_number
@_no_wait
@on_box
@json_option("Print one JSON object.", BULK_OPERATIONS)
def _begin(box: MessageBox, number: int, *, no_wait: bool, json_: bool) -> None:
    """Begin the bulk operation NUMBER, which was gathered in the console, and work on it to its end."""
    follow_bulk(box, operations.begin(box, number), waits=not no_wait, json_=json_)


@bulk.command("follow")
@_number
@on_box
@json_option("Print one JSON object at the end.", BULK_OPERATIONS)
def _follow(box: MessageBox, number: int, *, json_: bool) -> None:
    """Follow the bulk operation NUMBER to its end, and work on it where nobody else does."""
    follow_bulk(box, operations.bulk_operation(box, number), waits=True, json_=json_)


@bulk.command("cancel")
@_number
@acts_on_box(BULK_OPERATIONS)
def _cancel(box: MessageBox, number: int, *, why: Why, json_: bool) -> None:
    """Cancel the bulk operation NUMBER: what is done stays done, and nothing more is."""
    found = operations.cancel(box, number, **why())
    print_row(BULK_OPERATIONS, found, f"cancelled: {_counts(found)}", json_=json_)


def follow_bulk(box: MessageBox, found: BulkOperation, *, waits: bool, json_: bool) -> None:
    """Work on an operation to its end, or leave it to others; print what came of it."""
    number = found.bulk_id
    if waits:
        try:
            found = _last(shown_portions(operations.follow(box, number), found, quiet=json_))
        except KeyboardInterrupt:
            click.echo(
                f"bulk operation {number} isn't over: `{own_name()} serve` and workers go on with it, as does "
                f"`{own_name()} bulk follow {number}`; `{own_name()} bulk cancel {number}` ends it",
                err=True,
            )
            raise
    if json_:
        print_object(BULK_OPERATIONS, found)
    elif waits:
        _tell(box, found)
    else:
        click.echo(f"bulk operation {number}: {found.action.replace('_', '-')} {counted(found.groups, 'group')}")
        click.echo(f"see {own_name()} bulk show {number}; `{own_name()} serve` and workers do it", err=True)
    exit_if(waits and (found.refused or found.changed or found.left))


def _last(steps: Iterable[BulkOperation]) -> BulkOperation:
    *_, last = steps
    return last


def _tell(box: MessageBox, found: BulkOperation) -> None:
    number, action = found.bulk_id, found.action.replace("_", "-")
    if found.refused or found.changed:
        left_out = operations.bulk_groups(box, number, result="not done", limit=_TOLD)
        print_rows(BULK_GROUPS.without("log"), left_out)
        if found.refused + found.changed > len(left_out):
            click.echo(f"all of them: {own_name()} bulk show {number} --result 'not done'")
    ended = f", cancelled by {found.cancelled_by}: {found.cancelled_because}" if found.cancelled_by is not None else ""
    tell(f"bulk operation {number}, {action}, by {found.actor}: {found.reason}{ended}")
    click.echo(f"{found.state}: {_counts(found)}")


def _counts(found: BulkOperation) -> str:
    further: dict[str, Any] = {
        "refused": found.refused,
        "changed since they were seen": found.changed,
        "left": found.left,
    }
    told = "".join(f", {count:,} {what}" for what, count in further.items() if count)
    return f"{found.done:,} of {counted(found.groups, 'group')}{told}"
