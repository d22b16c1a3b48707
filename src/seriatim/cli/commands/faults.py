"""``seriatim faults``: list the failures of handlers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from seriatim.cli.options.choose import ERRORS, by_error, narrowing, of_class
from seriatim.cli.options.which import opened, which_box
from seriatim.cli.shown.plain import in_line, in_lines
from seriatim.cli.shown.table import Table, as_json, json_option
from seriatim.errors import UsageError
from seriatim.operations import faults as operations
from seriatim.operations.tables import faults as declared

if TYPE_CHECKING:
    from seriatim.operations.faults import FaultView

__all__ = ["FAULTS", "faults"]

_KINDS = ("transient", "unexpected", "bug", "business", "poison", "timeout")


FAULTS = Table.of(declared.FAULTS)


@click.command("faults")
@click.argument("fault_id", metavar="[ID]", type=int, required=False)
@click.option("--queue", default=None, help="Only faults in this queue.")
@click.option("--group", default=None, metavar="KEY", help="Only faults in the group with this key.")
@click.option(
    "--key",
    default=None,
    metavar="PATTERN",
    help="Only faults in groups with a key that matches; * stands for any text.",
)
@click.option("--message", "message_id", default=None, metavar="ID", help="Only faults on this message.")
@click.option("--kind", type=click.Choice(_KINDS), default=None, help="Only faults of this kind.")
@click.option("--older-than", default=None, metavar="PERIOD", help="Only faults that are older, such as 7d.")
@click.option("--error", default=None, metavar="TEXT", help="Only faults with this text in their class or message.")
@of_class("faults with an error of this class")
@narrowing("faults", "faults on messages that still exist,")
@by_error
@click.option(
    "--limit", type=click.IntRange(1, 100_000), default=100, show_default=True, help="List at most this many."
)
@which_box
@json_option("Print a JSON list; with ID, one object.", FAULTS, ERRORS)
def faults(
    fault_id: int | None, *, by: str | None, dsn: str | None, schema: str, json_: bool, limit: int, **given: Any
) -> None:
    """List the faults of handlers, newest first; with ID, show that fault and its traceback."""
    if fault_id is not None:
        if by or any(given.values()):
            raise UsageError("filters can't be combined with ID", remedy="leave out either the filters or ID")
        with opened(dsn, schema) as box:
            one = operations.fault_view(box, fault_id)
        click.echo(as_json(FAULTS.object_of(one)) if json_ else _told(one))
        return
    with opened(dsn, schema) as box:
        if given["queue"] is not None:
            box.definitions().queue(given["queue"])
        if by is not None:
            ERRORS.print(operations.faults_by_error(box, limit=limit, **given), json_=json_, limit=limit)
            return
        found = operations.faults(box, limit=limit, **given)
    FAULTS.print(found, json_=json_, limit=limit)


def _told(one: FaultView) -> str:
    facts = FAULTS.object_of(one)
    traceback = str(facts.pop("traceback"))
    lines = [in_line(f"{name}: {value}") for name, value in facts.items() if value is not None]
    return "\n".join([*lines, in_lines(traceback.rstrip())] if traceback else lines)
