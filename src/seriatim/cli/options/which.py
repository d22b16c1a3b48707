"""The options that choose a message box."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import click

from seriatim.box.box import MessageBox
from seriatim.box.connection.connections import FOLDER, VARIABLE
from seriatim.cli.options.option import option, together
from seriatim.cli.options.why import says_why
from seriatim.cli.shown.table import Table, json_option
from seriatim.operations.box_here import check_here, is_here
from seriatim.runtime.processes.patient_opening import open_patiently
from seriatim.runtime.stop_signal import Stop

_SCHEMA = "seriatim"
#: The option ``schema`` alone.
which_schema = option("--schema", "Schema of the box.", default=_SCHEMA)


def in_id_space(command: Callable[..., Any]) -> Callable[..., Any]:
    """The option that chooses among several messages with one id."""
    told = "The id space of the message (a role's, or \"\": the owner's), if several messages have that ID."
    return option("--id-space", told, metavar="NAME")(command)


def which_box(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that choose a box: ``dsn`` and ``schema``."""
    dsn = option("--dsn", "Connect to this PostgreSQL (default: $SERIATIM_DSN, else the embedded server).")
    return dsn(which_schema(command))


def on_box(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that choose a box, which is opened for the command and is its first argument."""

    @which_box
    @wraps(command)
    def with_box(*arguments: Any, dsn: str | None, schema: str, **options: Any) -> Any:
        with opened(dsn, schema) as box:
            return command(box, *arguments, **options)

    return with_box


def looks_at_box(*tables: Table[Any], told: str = "Print one JSON object.") -> Callable[..., Any]:
    """The option ``--json``, and the box."""
    return together(json_option(told, *tables), on_box)


def acts_on_box(*tables: Table[Any], told: str = "Print one JSON object.") -> Callable[..., Any]:
    """The actor with the reason, the box, and the option ``--json``."""
    return together(says_why, on_box, json_option(told, *tables))


@contextmanager
def opened_patiently(dsn: str | None, schema: str, *, waits: bool) -> Iterator[MessageBox | None]:
    """Open the box that the options name, as `opened` does; wait for its database if that is away. The block gets None if SIGTERM or SIGINT
    came before the database did.
    """
    if dsn is None and VARIABLE not in os.environ:  # the embedded server starts with the box, and isn't waited for
        with opened(dsn, schema) as box:
            yield box
        return
    stop = Stop()
    with stop.listening():
        found = open_patiently(dsn, schema, stop, create=False, waits=waits)
    if found is None:
        yield None
        return
    with found:
        yield found


@contextmanager
def opened(dsn: str | None, schema: str, *, makes: bool = False) -> Iterator[MessageBox]:
    """Open the box that the options name. Only a command that defines something (`makes`) creates a missing box. For all others, the folder
    may be the wrong one, or the name may be mistyped.
    """
    if not makes:
        check_here(dsn)
    elif not is_here(dsn):
        click.echo(f"there is no message box in this folder yet: making one in {FOLDER}", err=True)
    with MessageBox.open(dsn, schema=schema, create=makes) as box:
        yield box
