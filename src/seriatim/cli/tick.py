"""``seriatim box tick``: the work that is due even if nobody receives."""

from __future__ import annotations

from dataclasses import asdict

import click

from seriatim.cli.which import as_json, opened, which_box

__all__ = ["tick"]


@click.command("tick")
@which_box
@click.option("--json", "json_", is_flag=True, help="Print one JSON object.")
def tick(*, dsn: str | None, schema: str, json_: bool) -> None:
    """Route messages that were published through SQL, fire due timers of groups and dialogs, and retry faulted groups."""
    with opened(dsn, schema) as box:
        done = box.tick()
    click.echo(
        as_json(asdict(done))
        if json_
        else f"routed {done.routed:,} messages, fired the timers of {done.groups:,} groups and {done.dialogs:,} dialogs, "
        f"recovered {done.recovered:,}"
    )
