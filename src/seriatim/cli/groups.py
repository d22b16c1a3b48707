"""``seriatim groups``: list the groups of a message box."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from seriatim.cli.choose import choosing
from seriatim.cli.which import as_json, listed, opened, which_box

__all__ = ["groups"]


@click.command("groups")
@choosing
@click.option(
    "--limit", type=click.IntRange(1, 100_000), default=1000, show_default=True, help="List at most this many."
)
@which_box
@click.option("--json", "json_", is_flag=True, help="Print a JSON list.")
def groups(*, queue: str | None, limit: int, dsn: str | None, schema: str, json_: bool, **chosen: Any) -> None:
    """List groups by queue and key: state and its age, next number, backlog, reason for stopping."""
    from seriatim.operations import groups as operations  # noqa: PLC0415 -- the driver, when it is needed

    with opened(dsn, schema) as box:
        if queue is not None:
            box.definitions().queue(queue)
        found = operations.groups(box, queue, limit=limit, **chosen)
    if json_:
        click.echo(as_json([asdict(one) | {"waiting": one.waiting} for one in found]))
        return
    titles = (
        *("queue", "group", "state", "since", "next", "missing", "due", "arrived", "held", "queued", "touched"),
        "reason",
    )
    rows = [
        (
            *(one.queue, one.group, _state(one.state, one.locked_by), one.since, one.next),
            *(_missing(one.next, one.hole_through), one.due_at, one.arrived, one.held, one.queued, one.touched_at),
            one.reason,
        )
        for one in found
    ]
    listed(titles, rows, limit)


def _state(state: str, locked_by: int | None) -> str:
    return f"{state} by {locked_by}" if state == "locked" else state


def _missing(first: int | None, last: int | None) -> str | None:
    if last is None:
        return None
    return str(first) if first == last else f"{first}..{last}"
