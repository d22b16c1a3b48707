"""The actor and the reason of an action, for the operator log, and the confirmation of bulk actions."""

from __future__ import annotations

import getpass
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import wraps
from typing import Any

import click

from seriatim.cli.options.option import option
from seriatim.errors import UsageError
from seriatim.operations.bulk import Refused


@dataclass(frozen=True, slots=True)
class Why:
    """Who acts, and why, as the options say. A call gives both, as functions of `operations` take them."""

    given_actor: str | None
    reason: str | None
    usual: str | None = None

    @property
    def actor(self) -> str:
        """The operator: the user of this system, unless another one is named."""
        return self.given_actor or getpass.getuser()

    def __call__(self) -> dict[str, Any]:
        """The actor and the reason; a missing reason is asked for at a terminal."""
        reason = self.usual if self.usual and not self.reason else self.reason
        if reason is None:
            if not sys.stdin.isatty():
                remedy = "give it with --reason: it is written to the operator log"
                raise UsageError("the reason is missing", remedy=remedy)
            reason = click.prompt("Why", err=True)
        return {"actor": self.actor, "reason": str(reason)}


def says_why(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options ``actor`` and ``reason``; the function gets both as `why`."""
    return _with_why(function, "The reason, for the operator log; asked for if missing.")


def may_say_why(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same options of commands that nobody has to give a reason for."""
    return _with_why(function, "The reason, for the operator log (default: on request).", "on request")


def _with_why(function: Callable[..., Any], told: str, usual: str | None = None) -> Callable[..., Any]:
    @wraps(function)
    def run(*arguments: Any, actor: str | None, reason: str | None, **options: Any) -> Any:
        return function(*arguments, why=Why(actor, reason, usual), **options)

    of_actor = "Your name for the operator log (default: the user name on this system)."
    run = option("--reason", told)(run)
    return option("--actor", of_actor)(run)


def confirmed(question: str, *, yes: bool) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(
            f"this needs confirmation: {question}", remedy="give --yes to confirm, or --dry-run to look first"
        )
    click.confirm(question, abort=True, err=True)


def exit_if(condition: object, code: int = 1) -> None:
    """Exit with a code if something is so; the results have been printed before."""
    if condition:
        click.get_current_context().exit(code)


def no_if_refused(done: Iterable[object]) -> None:
    """Exit with 1 if part of a bulk action was refused."""
    exit_if(any(isinstance(one, Refused) for one in done))
