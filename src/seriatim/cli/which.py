"""The options that choose a message box."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from seriatim.box.box import MessageBox

__all__ = ["in_id_space", "opened", "which_box", "which_schema"]

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
