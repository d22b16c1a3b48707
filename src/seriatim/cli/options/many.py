"""Commands on many things: they are named one by one, or chosen with --all and filters."""

from __future__ import annotations

from collections.abc import Callable, Sized
from dataclasses import dataclass
from functools import wraps
from inspect import signature
from typing import Any, ClassVar

import click

from seriatim.cli.options.option import flag, together
from seriatim.errors import UsageError


@dataclass(frozen=True, slots=True)
class Many:
    #: One run takes at most this many.
    most: ClassVar[int] = 100_000

    names: tuple[Any, ...]
    all_: bool
    filters: dict[str, Any]
    dry_run: bool
    yes: bool

    def is_only_shown(self, found: Sized, *, json_: bool) -> bool:
        """Whether nothing is done with what was found but to list it."""
        return self.dry_run or not (found or json_)

    @classmethod
    def note_more(cls, found: Sized) -> None:
        """Say that one run may not take all, before it asks."""
        if len(found) >= cls.most:
            click.echo(f"there may be more than these {cls.most:,}: another run takes them", err=True)


def many(
    noun: str, choosing: Callable[..., Any], *, type: Any = str, yes: str = "With --all: don't ask for confirmation."  # noqa: A002 -- click's word
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:  # fmt: skip
    """The options of such a command; the function gets them as its first argument, with the filters that are `choosing`'s."""
    options = together(
        click.argument("names", metavar="[ID…]", nargs=-1, type=type),
        flag("--all", "all_", f"All {noun} that match the options."),
        choosing,
        flag("--dry-run", f"Change nothing; list the {noun}."),
        flag("--yes", yes),
    )

    def with_them(function: Callable[..., Any]) -> Callable[..., Any]:
        of_function = [*signature(function).parameters, "dsn", "schema", "actor", "reason"]

        @wraps(function)
        def run(*, names: tuple[Any, ...], all_: bool, dry_run: bool, yes: bool, **given: Any) -> Any:
            if all_ is bool(names):
                remedy = "give their ids, or --all with options that choose them"
                raise UsageError(f"name either {noun} or --all", remedy=remedy)
            own = {name: given.pop(name) for name in of_function if name in given}
            return function(Many(names, all_, given, dry_run, yes), **own)

        return options(run)

    return with_them
