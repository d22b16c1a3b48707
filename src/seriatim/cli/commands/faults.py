"""``seriatim faults``: list the failures of handlers."""

from __future__ import annotations

from typing import Any

import click

from seriatim.box.box import MessageBox
from seriatim.cli.options.listing import counting, is_filtered, options_of
from seriatim.cli.options.which import looks_at_box
from seriatim.cli.shown.table import as_json, print_rows
from seriatim.errors import UsageError
from seriatim.operations import faults as operations
from seriatim.operations.faults import FaultView
from seriatim.operations.tables.errors import ERRORS
from seriatim.operations.tables.faults import FAULTS
from seriatim.pipeline.text.plain import in_line, in_lines


@click.command("faults")
@click.argument("fault_id", metavar="[ID]", type=int, required=False)
@options_of(operations.faults)
@counting("error", operations.faults_by_error)
@looks_at_box(FAULTS, ERRORS, told="Print a JSON list; with ID, one object.")
def faults(box: MessageBox, fault_id: int | None, *, by: str | None, json_: bool, **given: Any) -> None:
    """List the faults of handlers, newest first; with ID, show that fault and its traceback."""
    if fault_id is not None:
        if by or is_filtered(given):
            raise UsageError("filters can't be combined with ID", remedy="leave out either the filters or ID")
        one = operations.fault_view(box, fault_id)
        click.echo(as_json(FAULTS.object_of(one)) if json_ else _told(one))
    elif by is not None:
        print_rows(ERRORS, operations.faults_by_error(box, **given), json_=json_, limit=given["limit"])
    else:
        print_rows(FAULTS, operations.faults(box, **given), json_=json_, limit=given["limit"])


def _told(one: FaultView) -> str:
    facts = FAULTS.object_of(one)
    traceback = str(facts.pop("traceback"))
    lines = [in_line(f"{name}: {value}") for name, value in facts.items() if value is not None]
    return "\n".join([*lines, in_lines(traceback.rstrip())] if traceback else lines)
