"""``seriatim faults``: list the failures of handlers."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from seriatim.cli.plain import in_line, in_lines
from seriatim.cli.which import as_json, listed, opened, which_box
from seriatim.errors import UsageError

__all__ = ["faults"]

_KINDS = ("transient", "business", "poison", "timeout")


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
@click.option(
    "--limit", type=click.IntRange(1, 100_000), default=100, show_default=True, help="List at most this many."
)
@which_box
@click.option("--json", "json_", is_flag=True, help="Print a JSON list; with ID, one object.")
def faults(fault_id: int | None, *, dsn: str | None, schema: str, json_: bool, limit: int, **given: Any) -> None:
    """List the faults of handlers, newest first; with ID, show that fault and its traceback."""
    from seriatim.operations import faults as operations  # noqa: PLC0415 -- the driver, when it is needed

    if fault_id is not None:
        if any(given.values()):
            raise UsageError("filters can't be combined with ID", remedy="leave out either the filters or ID")
        with opened(dsn, schema) as box:
            one = operations.fault_view(box, fault_id)
        click.echo(as_json(asdict(one)) if json_ else _told(one))
        return
    with opened(dsn, schema) as box:
        if given["queue"] is not None:
            box.definitions().queue(given["queue"])
        found = operations.faults(box, limit=limit, **given)
    if json_:
        click.echo(as_json([asdict(one) for one in found]))
        return
    rows = [
        (
            *(str(one.fault_id), one.at, one.queue, one.group, one.message_id, one.kind, one.attempt),
            *(f"{one.error_class}: {_first_line(one.error)}", one.retry_at),
        )
        for one in found
    ]
    listed(("fault", "at", "queue", "group", "message", "kind", "attempt", "error", "again"), rows, limit)


def _first_line(text: str) -> str:
    line = text.partition("\n")[0]
    return line if len(line) <= 80 else f"{line[:79]}…"


def _told(one: object) -> str:
    facts = asdict(one)  # type: ignore[call-overload]
    traceback = facts.pop("traceback")
    lines = [in_line(f"{name}: {value}") for name, value in facts.items() if value is not None]
    return "\n".join([*lines, in_lines(traceback.rstrip())] if traceback else lines)
