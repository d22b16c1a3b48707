"""``seriatim contracts``: list the contracts of dialogs."""

from __future__ import annotations

import click

from seriatim.cli.which import as_json, opened, which_box

__all__ = ["contracts"]


@click.command()
@which_box
@click.option("--json", "json_", is_flag=True, help="Print a JSON list.")
def contracts(*, dsn: str | None, schema: str, json_: bool) -> None:
    """List the contracts of a message box, with the sender of each message type."""
    with opened(dsn, schema) as box:
        found = [one for _, one in sorted(box.definitions().contracts.items())]
    if json_:
        click.echo(as_json([{"contract": one.name, "types": dict(one.types)} for one in found]))
        return
    for one in found:
        click.echo(one.name)
        for kind, sender in one.types.items():
            click.echo(f"  {kind}: {sender}")
