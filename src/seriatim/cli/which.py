"""The options that choose a message box, and the printing of results."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import click

from seriatim.cli.plain import in_line, width_of

if TYPE_CHECKING:
    from seriatim.box.box import MessageBox

__all__ = ["as_json", "in_columns", "in_id_space", "listed", "opened", "which_box", "which_schema"]

_SCHEMA = "seriatim"
#: The option ``schema`` alone.
which_schema = click.option("--schema", default=_SCHEMA, show_default=True, help="Schema of the box.")


def in_id_space(command: Callable[..., Any]) -> Callable[..., Any]:
    """The option that chooses among several messages with one id."""
    told = "The id space of the message (a role's, or \"\": the owner's), if several messages have that ID."
    return click.option("--id-space", default=None, metavar="NAME", help=told)(command)


def which_box(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that choose a box: ``dsn`` and ``schema``."""
    dsn = click.option("--dsn", help="Connect to this PostgreSQL (default: $SERIATIM_DSN, else the embedded server).")
    return dsn(which_schema(command))


@contextmanager
def opened(dsn: str | None, schema: str, *, makes: bool = False) -> Iterator[MessageBox]:
    """Open the box that the options name.

    A missing box is created in the usual schema, with a note on standard error, because the folder may be the wrong
    one. In another schema only a command with `makes` creates it, because the name may be mistyped.
    """
    from seriatim.box.box import MessageBox  # noqa: PLC0415 -- the driver, when it is needed
    from seriatim.box.connection.connections import FOLDER, VARIABLE  # noqa: PLC0415

    creates = makes or schema == _SCHEMA
    if creates and dsn is None and VARIABLE not in os.environ and not os.path.lexists(FOLDER):
        click.echo(f"there is no message box in this folder yet: making one in {FOLDER}", err=True)
    with MessageBox.open(dsn, schema=schema, create=creates) as box:
        yield box


def as_json(found: object) -> str:
    """Plain values as JSON; times as ISO 8601, bytes as text if they are UTF-8, else as hexadecimal digits."""
    return json.dumps(found, ensure_ascii=False, indent=2, default=_written)


def in_columns(titles: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a table for people: None is an empty cell, numbers are aligned to the right."""
    texts = [[in_line(_shown(one)) for one in row] for row in rows]
    widths = [max(map(width_of, column)) for column in zip(titles, *texts, strict=True)]
    right = [bool(rows) and all(isinstance(row[at], int | None) for row in rows) for at in range(len(titles))]
    for line in (titles, *texts):
        cells = (
            " " * (width - width_of(text)) + text if to_the_right else text + " " * (width - width_of(text))
            for text, width, to_the_right in zip(line, widths, right, strict=True)
        )
        click.echo("  ".join(cells).rstrip())


def listed(titles: Sequence[str], rows: Sequence[Sequence[object]], limit: int) -> None:
    """Print a table, or a note that there is nothing; and a note if the limit was reached."""
    if not rows:
        click.echo("there are none")
        return
    in_columns(titles, rows)
    if len(rows) >= limit:
        click.echo(f"stopped at {limit:,}, there may be more: --limit N lists more", err=True)


def _shown(value: object) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case datetime():
            return value.astimezone().isoformat(" ", "seconds")
        case list() | tuple():
            return ", ".join(map(str, value))
    return str(value)


def _written(value: object) -> object:
    match value:
        case datetime():
            return value.isoformat()
        case Decimal():
            return str(value)
        case bytes():
            try:
                return value.decode()
            except UnicodeDecodeError:
                return value.hex()
    raise TypeError(type(value).__name__)
