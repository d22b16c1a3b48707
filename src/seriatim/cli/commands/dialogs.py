"""``seriatim dialogs``: list, show, end and clean up the sides of dialogs."""

from __future__ import annotations

import click

from seriatim.cli.options.group_help import Commands
from seriatim.cli.options.which import opened, which_box
from seriatim.cli.shown.plain import in_line
from seriatim.cli.shown.table import Table, as_json, json_option
from seriatim.kernel.dialog import LABELS, DialogState
from seriatim.operations import dialogs as dialog_operations
from seriatim.operations.tables import dialogs as declared
from seriatim.pipeline.text.counted import counted

__all__ = ["DIALOGS", "dialogs"]

DIALOGS = Table.of(declared.DIALOGS)
_json = json_option("Print JSON.", DIALOGS)
#: What the other side of a dialog is told that ended with an error, if nothing else was given.
_ENDED_BY = "ended by an operator"
_STATES = click.Choice([*(one.value for one in DialogState), *(name for name, _ in LABELS.values())])


@click.group("dialogs", cls=Commands)
def dialogs() -> None:
    """List the dialogs of a message box, show one, end one, or clean up old ones."""


@dialogs.command("list")
@click.option("--service", default=None, help="Only sides of this service.")
@click.option("--state", type=_STATES, default=None, help="Only sides in this state.")
@click.option("--older-than", default=None, metavar="PERIOD", help="Only dialogs that began longer ago, such as 7d.")
@click.option(
    "--limit", type=click.IntRange(1, 100_000), default=1000, show_default=True, help="List at most this many."
)
@which_box
@_json
def _list(
    *,
    service: str | None,
    state: str | None,
    older_than: str | None,
    limit: int,
    dsn: str | None,
    schema: str,
    json_: bool,
) -> None:
    """List the sides of dialogs, oldest first."""
    with opened(dsn, schema) as box:
        found = dialog_operations.dialogs(box, service=service, state=state, older_than=older_than, limit=limit)
    DIALOGS.print(found, json_=json_, limit=limit)


@dialogs.command("show")
@click.argument("handle")
@which_box
@_json
def _show(handle: str, *, dsn: str | None, schema: str, json_: bool) -> None:
    """Show one side of a dialog, by its HANDLE."""
    with opened(dsn, schema) as box:
        found = dialog_operations.dialogs(box, handle=handle)
    if not found:
        raise click.UsageError(f"there is no dialog with the handle {handle}")
    if json_:
        DIALOGS.print_object(found[0])
        return
    for name, value in DIALOGS.object_of(found[0]).items():
        if value is not None:
            click.echo(in_line(f"{name}: {', '.join(value) if isinstance(value, list) else value}"))


@dialogs.command("end")
@click.argument("handle")
@click.option("--error-code", type=click.IntRange(1), default=None, help="End it with an error, with this code.")
@click.option(
    "--error-text", default=None, help=f"With --error-code: the text that the other side gets.  [default: {_ENDED_BY}]"
)
@click.option("--cleanup", is_flag=True, help="End this side only; the other side is not notified.")
@which_box
@_json
def _end(
    handle: str,
    *,
    error_code: int | None,
    error_text: str | None,
    cleanup: bool,
    dsn: str | None,
    schema: str,
    json_: bool,
) -> None:
    """End one side of a dialog, by its HANDLE."""
    if error_text is not None and error_code is None:
        raise click.UsageError("--error-text needs --error-code")
    error = None if error_code is None else (error_code, _ENDED_BY if error_text is None else error_text)
    with opened(dsn, schema) as box:
        with box.session() as tx:
            tx.end(handle, error=error, cleanup=cleanup)
        (found,) = dialog_operations.dialogs(box, handle=handle)
    click.echo(as_json(DIALOGS.object_of(found)) if json_ else f"the dialog {handle} is {found.state_name}")


@dialogs.command("cleanup")
@click.option("--state", type=_STATES, default="error", show_default=True, help="Clean up sides in this state.")
@click.option(
    "--older-than", default="7d", show_default=True, metavar="PERIOD", help="Clean up dialogs that began longer ago."
)
@click.option("--dry-run", is_flag=True, help="Change nothing; list the sides.")
@which_box
@_json
def _cleanup(*, state: str, older_than: str, dry_run: bool, dsn: str | None, schema: str, json_: bool) -> None:
    """Clean up old dialogs: close their sides and delete messages that wait there, without notifying the other sides."""
    with opened(dsn, schema) as box:
        found = dialog_operations.clean_up_dialogs(box, state=state, older_than=older_than, dry_run=dry_run)
    DIALOGS.print(found, json_=json_)
    if not json_:
        click.echo(counted(len(found), "dialog ", "dialogs ") + ("would be cleaned up" if dry_run else "cleaned up"))
