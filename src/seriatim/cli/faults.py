"""``seriatim faults``: what handlers failed at."""

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
@click.option("--queue", default=None, help="Only in this queue.")
@click.option("--group", default=None, metavar="KEY", help="Only in the group with this key.")
@click.option("--key", default=None, metavar="PATTERN", help="Only in groups with keys like this; * is any text.")
@click.option("--message", "message_id", default=None, metavar="ID", help="Only at this message.")
@click.option("--kind", type=click.Choice(_KINDS), default=None, help="Only of this kind.")
@click.option("--older-than", default=None, metavar="PERIOD", help="Only those that are older than that.")
@click.option("--error", default=None, metavar="TEXT", help="Only those whose class or text has this in it.")
@click.option("--limit", type=click.IntRange(1, 100_000), default=100, show_default=True, help="At most so many.")
@which_box
@click.option("--json", "json_", is_flag=True, help="Print a JSON list; with ID, one object.")
def faults(fault_id: int | None, *, dsn: str | None, schema: str, json_: bool, limit: int, **given: Any) -> None:
    """List what handlers failed at, newest first; or show one fault, the one with the number ID, with its traceback."""
    from seriatim.operations import faults as operations  # noqa: PLC0415 -- the driver, when it is needed

    if fault_id is not None:
        if any(given.values()):
            raise UsageError("ID names one fault", remedy="leave the filters out")
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
