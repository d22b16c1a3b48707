"""``seriatim dialogs``: list, show, end and clean up the sides of dialogs."""

from __future__ import annotations

import click

from seriatim.box.box import MessageBox
from seriatim.cli.options.group_help import Commands
from seriatim.cli.options.listing import list_command
from seriatim.cli.options.option import flag, option
from seriatim.cli.options.which import on_box
from seriatim.cli.shown.table import json_option, print_object, print_row, print_rows, tell
from seriatim.kernel.dialog import LABELS, DialogState
from seriatim.operations import dialogs as dialog_operations
from seriatim.operations.tables.dialogs import DIALOGS
from seriatim.pipeline.text.counted import counted

_json = json_option("Print JSON.", DIALOGS)
#: What the other side of a dialog is told that ended with an error, if nothing else was given.
_ENDED_BY = "ended by an operator"
_STATES = click.Choice([*(one.value for one in DialogState), *(name for name, _ in LABELS.values())])

dialogs = Commands("dialogs")
dialogs.add_command(list_command("list", dialog_operations.dialogs, DIALOGS))


@dialogs.command("show")
@click.argument("handle")
@_json
@on_box
def _show(box: MessageBox, handle: str, *, json_: bool) -> None:
    """Show one side of a dialog, by its HANDLE."""
    found = dialog_operations.dialogs(box, handle=handle)
    if not found:
        raise click.UsageError(f"there is no dialog with the handle {handle}")
    if json_:
        print_object(DIALOGS, found[0])
        return
    for name, value in DIALOGS.object_of(found[0]).items():
        if value is not None:
            tell(f"{name}: {', '.join(value) if isinstance(value, list) else value}")


@dialogs.command("end")
@click.argument("handle")
@option("--error-code", "End it with an error, with this code.", type=click.IntRange(1))
@option("--error-text", f"With --error-code: the text that the other side gets.  [default: {_ENDED_BY}]")
@flag("--cleanup", "End this side only; the other side is not notified, but in another box it gets an Error.")
@on_box
@_json
def end(
    box: MessageBox, handle: str, *, error_code: int | None, error_text: str | None, cleanup: bool, json_: bool
) -> None:
    """End one side of a dialog, by its HANDLE."""
    if error_text is not None and error_code is None:
        raise click.UsageError("--error-text needs --error-code")
    error = None if error_code is None else (error_code, _ENDED_BY if error_text is None else error_text)
    with box.session() as tx:
        tx.end(handle, error=error, cleanup=cleanup)
    (found,) = dialog_operations.dialogs(box, handle=handle)
    print_row(DIALOGS, found, f"the dialog {handle} is {found.state_name}", json_=json_)


@dialogs.command("cleanup")
@option("--state", "Clean up sides in this state.", type=_STATES, default="error")
@option("--older-than", "Clean up dialogs that began longer ago.", default="7d", metavar="PERIOD")
@flag("--dry-run", "Change nothing; list the sides.")
@on_box
@_json
def cleanup(box: MessageBox, *, state: str, older_than: str, dry_run: bool, json_: bool) -> None:
    """Clean up old dialogs: close their sides and delete messages that wait there. Other sides in this box are not notified; those in
    another box get an Error.
    """
    found = dialog_operations.clean_up_dialogs(box, state=state, older_than=older_than, dry_run=dry_run)
    print_rows(DIALOGS, found, json_=json_)
    if not json_:
        click.echo(counted(len(found), "dialog ", "dialogs ") + ("would be cleaned up" if dry_run else "cleaned up"))
