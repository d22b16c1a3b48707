"""``seriatim services``: list the services between which dialogs run."""

from __future__ import annotations

import click

from seriatim.cli.which import as_json, in_columns, opened, which_box

__all__ = ["services"]


@click.command()
@which_box
@click.option("--json", "json_", is_flag=True, help="Print a JSON list.")
def services(*, dsn: str | None, schema: str, json_: bool) -> None:
    """List the services of a message box, with their queues and the contracts that they accept."""
    with opened(dsn, schema) as box:
        known = box.definitions().services
    found = [
        {"service": name, "queue": one.queue, "contracts": list(one.contracts), "retention": one.retention}
        for name, one in sorted(known.items())
    ]
    if json_:
        click.echo(as_json(found))
    elif not found:
        click.echo("there are no services")
    else:
        in_columns(tuple(found[0]), [tuple(one.values()) for one in found])
