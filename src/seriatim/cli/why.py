"""Who does something, and why: the options of what is written to the operator log, and the question before much is done."""

from __future__ import annotations

import getpass
import sys
from collections.abc import Callable, Iterable
from typing import Any

import click

from seriatim.errors import UsageError

__all__ = ["confirmed", "no_if_refused", "said", "says_why"]


def says_why(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options ``actor`` and ``reason``."""
    actor = click.option("--actor", default=None, help="Who does it (default: the user of this system).")
    reason = click.option(
        "--reason", default=None, help="Why; it is written to the operator log. Asked for if missing."
    )
    return actor(reason(command))


def said(actor: str | None, reason: str | None) -> dict[str, str]:
    """Who, and why; the reason is asked for where somebody can answer.

    Raises:
        UsageError: there is no reason, and nobody to ask.
    """
    if reason is None:
        if not sys.stdin.isatty():
            raise UsageError("there is no reason", remedy="give one with --reason: it is written to the operator log")
        reason = click.prompt("Why", err=True)
    return {"actor": actor or getpass.getuser(), "reason": str(reason)}


def confirmed(question: str, *, yes: bool) -> None:
    """Have something confirmed, unless that was done with ``--yes``.

    Raises:
        UsageError: nobody is there to ask.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(f"this asks first: {question}", remedy="give --yes if that is meant, or --dry-run to look")
    click.confirm(question, abort=True, err=True)


def no_if_refused(done: Iterable[object]) -> None:
    """Exit with 1 where something of what was done to many was refused; everything has been told before."""
    from seriatim.operations.bulk import Refused  # noqa: PLC0415 -- the driver, when it is needed

    if any(isinstance(one, Refused) for one in done):
        click.get_current_context().exit(1)
