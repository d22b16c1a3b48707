"""The actor and the reason of an action, for the operator log, and the confirmation of bulk actions."""

from __future__ import annotations

import getpass
import sys
from collections.abc import Callable, Iterable
from typing import Any

import click

from seriatim.errors import UsageError
from seriatim.operations.bulk import Refused

__all__ = ["confirmed", "may_say_why", "no_if_refused", "resubmitting", "said", "says_why"]


def says_why(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options ``actor`` and ``reason``."""
    actor = click.option(
        "--actor", default=None, help="Your name for the operator log (default: the user name on this system)."
    )
    reason = click.option("--reason", default=None, help="The reason, for the operator log; asked for if missing.")
    return actor(reason(command))


def said(actor: str | None, reason: str | None) -> dict[str, str]:
    """The actor and the reason; a missing reason is asked for at a terminal."""
    if reason is None:
        if not sys.stdin.isatty():
            raise UsageError("the reason is missing", remedy="give it with --reason: it is written to the operator log")
        reason = click.prompt("Why", err=True)
    return {"actor": actor or getpass.getuser(), "reason": str(reason)}


def confirmed(question: str, *, yes: bool) -> None:
    """Ask for confirmation, unless ``--yes`` was given."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(
            f"this needs confirmation: {question}", remedy="give --yes to confirm, or --dry-run to look first"
        )
    click.confirm(question, abort=True, err=True)


def no_if_refused(done: Iterable[object]) -> None:
    """Exit with 1 if part of a bulk action was refused; the results have been printed before."""
    if any(isinstance(one, Refused) for one in done):
        click.get_current_context().exit(1)


def may_say_why(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options of commands that route messages again, which nobody has to give a reason for."""
    actor = click.option(
        "--actor", default=None, help="Your name for the operator log (default: the user name on this system)."
    )
    reason = click.option("--reason", default=None, help="The reason, for the operator log (default: on request).")
    return actor(reason(command))


def resubmitting(actor: str | None, reason: str | None) -> dict[str, str]:
    """The actor and the reason, which have a default."""
    return {"actor": actor or getpass.getuser(), "reason": reason or "on request"}
