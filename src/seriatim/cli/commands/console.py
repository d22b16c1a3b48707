"""``seriatim console``: serve pages that show a message box in a browser, and mend it."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path

import click

from seriatim.cli.options.option import flag, option, repeated
from seriatim.cli.options.which import which_box
from seriatim.cli.options.worker_options import log_format as log_format_option
from seriatim.errors import MissingExtra, UsageError
from seriatim.extras import need
from seriatim.operations.box_here import check_here
from seriatim.runtime.processes.log import log_to_stderr


@click.command()
@option(
    "--listen",
    "Listen at this address; or unix:PATH, at a Unix socket for a proxy.",
    default="127.0.0.1:8470",
    metavar="HOST:PORT",
)
@option("--prefix", "Path below which a proxy shows the console, such as /seriatim.", default="", metavar="PATH")
@repeated(
    "--origin", "origins", "Address under which browsers see the console, such as https://ops.example.org.",
    metavar="URL",
)  # fmt: skip
@flag("--read-only", "Only look: PostgreSQL refuses every change.")
@option("--users", "Users with passwords and roles.", type=click.Path(path_type=Path), metavar="FILE")
@option("--add-user", "Write a user into the file of --users, with the roles of --roles, and end.", metavar="NAME")
@option("--actor-header", "Header in which a proxy names the user, such as X-Forwarded-User.", metavar="NAME")
@repeated("--trusted-proxy", "proxies", "With --actor-header: believe the proxy at this address, or the one that may open the Unix socket "
              "(unix).", metavar="ADDRESS")  # fmt: skip
@flag("--no-token", "Let in everybody who reaches the console, also without the token in its address.")
@option("--roles", "What users may do who have no line in a users file, or what the new user may do: "
              "see, see-bodies, mend, discard, switch, separated by commas.", metavar="ROLES")  # fmt: skip
@repeated(
    "--pipelines", "Show the pipeline in this file, too.",
    type=click.Path(path_type=Path, exists=True, dir_okay=False), metavar="FILE",
)  # fmt: skip
@log_format_option
@which_box
def console(
    *, listen: str, prefix: str, origins: tuple[str, ...], read_only: bool, users: Path | None, add_user: str | None,
    actor_header: str | None, proxies: tuple[str, ...], no_token: bool, roles: str | None, pipelines: tuple[Path, ...], log_format: str,
    dsn: str | None, schema: str,
) -> None:  # fmt: skip
    """Serve pages that show in a browser why something stands still, and mend it.

    Without --users or --actor-header it knows one user: you. Then it listens on loopback only, and opens with the token in the address that
    it prints. Ctrl-C (or SIGTERM) stops it.
    """
    if add_user is not None:
        _add(users, add_user, roles)
        return
    check_here(dsn)

    log_to_stderr("INFO", log_format)
    # The faces don't import each other: this one starts the other by its name, as it would start a program.
    serving = import_module("seriatim.console.serving")
    with serving.opened(dsn, schema, reads_only=read_only) as box:
        server = serving.server_of(
            box, listen=listen, prefix=prefix, origins=origins, reads_only=read_only, users=users, header=actor_header,
            proxies=proxies, roles=None if roles is None else roles.split(","), pipelines=pipelines,
            needs_token=not no_token,
        )  # fmt: skip
        if pipelines:
            _say_if_unseen()
        click.echo(f"the console is at {server.opens_at} (Ctrl-C stops it)", err=True)
        server.serve_until_stopped()


def _say_if_unseen() -> None:
    try:
        need("spark")
    except MissingExtra as error:
        click.echo(f"the console shows the box, and no pipelines: {error}", err=True)


def _add(users: Path | None, name: str, roles: str | None) -> None:
    """Write a user into the file of `--users`; the password is asked for, or is a line of standard input."""
    if users is None:
        raise UsageError("the file for the user is missing", remedy="name it with --users")
    who = import_module("seriatim.console.who")
    if sys.stdin.isatty():
        password = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    else:
        password = sys.stdin.readline().rstrip("\n")
    there = users.exists()
    if there and name in who.read_users(users):
        raise UsageError(f"the file {users} has the user {name!r}", remedy="delete the line first")
    line = who.line_of(name, (roles or "see").split(","), password)
    try:
        with open(os.open(users, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "a", encoding="utf-8") as file:  # noqa: PTH123 -- with its mode
            file.write(f"{line}\n")
    except OSError as error:
        raise UsageError(f"cannot write {users}: {error.strerror}") from None
    click.echo(f"{name} is in {users}", err=True)
