"""The options of lists, and whole commands that list: they come from the function that reads the list."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from typing import Any

import click

from seriatim.box.views.filtered import offered
from seriatim.box.views.listing import Choice, Filter, Flag, Limit, Place, PropertyValues
from seriatim.cli.options.option import option
from seriatim.cli.options.which import on_box
from seriatim.cli.shown.table import Table, json_option, print_rows
from seriatim.errors import UsageError, shown

_Command = Callable[..., Any]


class FilterOption(click.Option):
    def __init__(self, *arguments: Any, filter: Filter, **settings: Any) -> None:  # noqa: A002 -- what it is
        super().__init__(*arguments, **settings)
        self.filter = filter


def options_of(reads: Callable[..., Any], *, without: Collection[str] = ()) -> Callable[[_Command], _Command]:

    def with_them(command: _Command) -> _Command:
        for name, (one, default) in reversed(offered(reads).items()):
            if one.kind.for_people and name not in without:
                command = _option(name, one, default)(command)
        return command

    return with_them


def _option(name: str, one: Filter, default: Any) -> Callable[[_Command], _Command]:
    kind, settings = one.kind, dict[str, Any](default=default, help=one.help)
    called = (one.name or name).replace("_", "-")
    match kind:
        case Choice():
            settings |= {"type": click.Choice([*kind.values, *kind.aliases]), "multiple": kind.many}
        case Flag():
            settings["is_flag"] = True
        case Limit():
            most = kind.most if kind.most < 2**63 - 1 else None
            settings |= {"type": click.IntRange(1, most), "default": default or kind.shown, "show_default": True}
        case Place():
            settings |= {"type": click.IntRange(0), "metavar": kind.metavar}
        case PropertyValues():
            settings |= {"multiple": True, "metavar": kind.metavar, "callback": _properties}
        case _:
            settings["metavar"] = kind.metavar or called.upper().replace("-", "_")
    return click.option(f"--{called}", name, cls=FilterOption, filter=one, **settings)


def _properties(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for one in given:
        name, equals, value = one.partition("=")
        if not equals or not name:
            raise UsageError(f"--property can't be {shown(one)}", remedy="write NAME=VALUE, such as customer=4711")
        found[name] = value
    return found


def counting(by: str, reads: Callable[..., Any]) -> Callable[[_Command], _Command]:
    told = inspect.getdoc(reads) or ""
    return option("--by", f"{told.partition('.')[0]}, in place of a list.", type=click.Choice([by]))


def list_command(
    name: str,
    reads: Callable[..., Any],
    table: Table[Any],
    *,
    by: tuple[str, Callable[..., Any], Table[Any]] | None = None,
    beside: Callable[[Any], str] | None = None,
    on: Callable[[_Command], _Command] = on_box,
) -> click.Command:
    """The command that lists what a function reads. `reads`: the function, from which the options and the help come. `table`: the table of
    its rows. `by`: with this word as ``--by`` another function counts the rows, into another table. `beside`: a line below the table, for
    people; empty: none. `on`: the options of what it reads from, which is its first argument.
    """

    def run(box: Any, *, json_: bool, by: str | None = None, **given: Any) -> None:
        read, shown_in = (counts[1], counts[2]) if by is not None and counts else (reads, table)
        print_rows(shown_in, read(box, **given), json_=json_, limit=given.get("limit"))
        if beside is not None and not (json_ or is_filtered(given)) and (told := beside(box)):
            click.echo(told)

    counts = by
    run.__doc__ = (inspect.getdoc(reads) or "").partition("\n\nArgs:")[0].partition("\n\nRaises:")[0]
    command = json_option("Print a JSON list.", table, *([by[2]] if by else []))(on(run))
    if by is not None:
        command = counting(by[0], by[1])(command)
    return click.command(name)(options_of(reads)(command))


def is_filtered(given: dict[str, Any]) -> bool:
    return any(value for name, value in given.items() if name != "limit")
