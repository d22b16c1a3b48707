"""``seriatim box``: the message box as whoever runs it sees it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import click

__all__ = ["box"]

_SCHEMA = "seriatim"


def _where(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say which box."""
    dsn = click.option("--dsn", help="Which PostgreSQL (default: $SERIATIM_DSN, else the embedded one).")
    schema = click.option("--schema", default=_SCHEMA, show_default=True, help="The schema of the box.")
    return dsn(schema(command))


@click.group("box")
def box() -> None:
    """The message box: make it, bring it up to date, look at it."""


@box.command("migrate")
@_where
def _migrate(*, dsn: str | None, schema: str) -> None:
    """Make the schema of a box, or bring it up to date.

    A password in --dsn can be seen by others on this machine: take it from the environment with ${NAME}, from
    ~/.pgpass, or name a file of mode 600: --dsn file:PATH.
    """
    from seriatim.box.box import MessageBox  # noqa: PLC0415 -- the driver, when it is needed

    applied = MessageBox.migrate(dsn, schema=schema)
    for one in applied:
        click.echo(f"applied {one.number:04} {one.name}")
    if not applied:
        click.echo("up to date")


@box.command("status")
@_where
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def _status(*, dsn: str | None, schema: str, as_json: bool) -> None:
    """Show version, size, and what each location gives next."""
    from seriatim.box.box import MessageBox  # noqa: PLC0415 -- the driver, when it is needed

    with MessageBox.open(dsn, schema=schema) as opened:
        found = opened.status()
    if as_json:
        click.echo(json.dumps(asdict(found), ensure_ascii=False, indent=2))
        return
    click.echo(f"{found.place}: version {found.version}, PostgreSQL {found.postgresql}, {found.size_bytes:,} bytes")
    for one in found.locations:
        click.echo(f"  {one.location}: next is {one.next_number:,} of epoch {one.epoch:,}")


@box.command("sql")
@click.option("--schema", default=_SCHEMA, show_default=True, help="The schema of the box.")
def _sql(*, schema: str) -> None:
    """Print the SQL that makes a box, for those who apply it by hand."""
    from seriatim.box.migrate import fresh_sql  # noqa: PLC0415 -- the driver, when it is needed

    click.echo(fresh_sql(schema))
