"""The options that choose groups, or narrow a list, and the filter that they make."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from seriatim.cli.shown.table import Table
from seriatim.errors import UsageError, shown
from seriatim.kernel.groups.states import GroupState
from seriatim.operations.tables import errors as declared

if TYPE_CHECKING:
    pass

__all__ = ["ERRORS", "by_error", "choosing", "in_time", "narrowing", "of_class"]

ERRORS = Table.of(declared.ERRORS)


def _properties(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for one in given:
        name, equals, value = one.partition("=")
        if not equals or not name:
            raise UsageError(f"--property can't be {shown(one)}", remedy="write NAME=VALUE, such as customer=4711")
        found[name] = value
    return found


def in_time(what: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The options ``since`` and ``until``; `what`: what is listed, and at which time, as in "faults"."""

    def with_them(command: Callable[..., Any]) -> Callable[..., Any]:
        told = f"Only {what} before this time, likewise."
        command = click.option("--until", default=None, metavar="TIME", help=told)(command)
        told = f"Only {what} from this time on: a time such as '2026-03-01 14:30', or how long ago, such as 2h."
        return click.option("--since", default=None, metavar="TIME", help=told)(command)

    return with_them


def narrowing(what: str, of: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The options ``since``, ``until`` and ``properties``."""
    options = (
        in_time(what),
        click.option(
            "--property",
            "properties",
            multiple=True,
            metavar="NAME=VALUE",
            callback=_properties,
            help=f"Only {of} with this value of a property; may be repeated.",
        ),
    )

    def with_them(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return with_them


def by_error(command: Callable[..., Any]) -> Callable[..., Any]:
    """The option ``by``."""
    told = "Count them by the class of their error, in place of a list."
    return click.option("--by", type=click.Choice(["error"]), default=None, help=told)(command)


def of_class(what: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The option ``error_class``; `what`: what it leaves, as in "faults with an error of this class"."""
    return click.option(
        "--error-class", default=None, metavar="CLASS", help=f"Only {what}, such as ValueError; see --by error."
    )


def choosing(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options ``queue``, ``state``, ``key``, ``older_than``, ``error``, ``error_class``, ``since``, ``until`` and ``properties``."""
    options = (
        click.option("--queue", default=None, help="Only groups of this queue."),
        click.option(
            "--state",
            multiple=True,
            type=click.Choice([str(one) for one in GroupState]),
            help="Only groups in this state; may be repeated.",
        ),
        click.option(
            "--key", default=None, metavar="PATTERN", help="Only groups with a key that matches; * stands for any text."
        ),
        click.option(
            "--older-than",
            default=None,
            metavar="PERIOD",
            help="Only groups that have been in their state for longer, such as 5m.",
        ),
        click.option(
            "--error",
            default=None,
            metavar="TEXT",
            help="Only groups with this text in the reason for which they stopped.",
        ),
        of_class("groups that an error of this class has stopped"),
        narrowing("groups that have been in their state", "groups that have a message"),
    )
    for option in reversed(options):
        command = option(command)
    return command
