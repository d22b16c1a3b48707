"""Writes docs/reference/command-tables.md from the tables that the commands declare in ``seriatim.cli``.

A test holds the page against what this would write; after a change to a table, or to the docstring of the class of its rows,
run ``python scripts/command_tables_page.py``.
"""

from __future__ import annotations

import dataclasses
import re
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from seriatim.cli.main import main
from seriatim.cli.shown.table import Column, JsonOption, Table
from seriatim.operations.tables.meanings import documented

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "command-tables.md"

_TYPES = {
    "str": "text",
    "UUID": "text",
    "int": "integer",
    "float": "number",
    "bool": "true or false",
    "datetime": "time",
    "list[str]": "list of texts",
    "tuple[str, ...]": "list of texts",
    "tuple[Action, ...]": "list of texts",
    "Key": "text",
}


def page() -> str:
    """The text of the page."""
    return "\n".join(_lines()) + "\n"


def printing(group: click.Group = main, before: str = "seriatim") -> Iterator[tuple[str, tuple[Table[Any], ...]]]:
    """The commands with the option ``--json``, and the tables that each prints."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from printing(command, f"{before} {name}")
        elif command is not None:
            for option in command.params:
                if isinstance(option, JsonOption):
                    yield f"{before} {name}", option.tables


def nested(table: Table[Any]) -> Iterator[Table[Any]]:
    """A table, the table that it extends, and the tables of the rows that are values in it."""
    yield table
    if table.base is not None:
        yield from nested(table.base)
    for column in table.columns:
        for one in column.tables:
            yield from nested(one)


def _lines() -> Iterator[str]:
    printed = {table.title: table for _, tables in printing() for table in tables}
    inner = {one.title: one for table in printed.values() for one in nested(table)}
    yield from (
        "# What the commands print",
        "",
        "This page is written from the tables that the commands declare in `seriatim.cli`. With `--json` a [command](cli.md)",
        "prints a row as an object with the names in the first column, in that order; without it people see the headings in the",
        "second column. Times are ISO 8601 texts with their offset; a value that is not there is null. Names may be added in a",
        "later version: a program should pass over names that it doesn't know.",
        "",
        "| command | prints |",
        "|---|---|",
    )
    for command, tables in printing():
        yield f"| `{command}` | {', '.join(map(_link, tables))} |"
    for table in (printed | inner).values():
        yield from _section(table)


def _section(table: Table[Any]) -> Iterator[str]:
    yield from ("", f"## {table.title}", "")
    about, meanings = documented(table)
    if table.base is None and about and about.rstrip(".") != table.title:
        yield from (about, "")
    if table.more:
        yield from (f"Besides: {table.more}.", "")
    if table.base is not None:
        yield from (f"All columns of {_link(table.base)}, and these:", "")
    yield from ("| JSON | heading | value | |", "|---|---|---|---|")
    for column in table.columns:
        if table.base is not None and column in table.base.columns:
            continue
        name = "" if column.name is None else f"`{column.name}`"
        heading = "" if column.title is None else f"`{column.title}`" if column.title else "(none)"
        told = column.meaning or meanings.get(column.name or "", "").replace("|", r"\|")
        yield f"| {name} | {heading} | {_value(table, column)} | {told} |"


def _value(table: Table[Any], column: Column[Any]) -> str:
    kind = _annotation(table, column)
    if column.tables:
        many = kind.startswith(("tuple", "list")) or not kind
        told = f"{'list: ' if many else ''}{' or '.join(map(_link, column.tables))}"
    elif column.name is None or not kind:
        return ""
    else:
        plain = kind.removesuffix(" | None")
        types = "object" if plain.startswith("Mapping") else ""
        if re.fullmatch(r"\w+( \| \w+)*", plain):
            types = " or ".join(dict.fromkeys(_TYPES.get(one, "text") for one in plain.split(" | ")))
        told = types or _TYPES.get(plain, "")
    optional = " or null" if kind.endswith("| None") else ""
    return f"{told}{optional}"


def _annotation(table: Table[Any], column: Column[Any]) -> str:
    if column.kind:
        return column.kind
    kind = table.row_class
    if kind is None or column.name is None:
        return ""
    for one in dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ():
        if one.name == column.name:
            return str(one.type)
    if isinstance(found := getattr(kind, column.name, None), property):
        return str(typing.cast("Any", found.fget).__annotations__.get("return", ""))
    return str(getattr(kind, "__annotations__", {}).get(column.name, ""))


def _link(table: Table[Any]) -> str:
    return f"[{table.title[0].lower()}{table.title[1:]}](#{anchor_of(table)})"


def anchor_of(table: Table[Any]) -> str:
    """Where the page has a table."""
    return re.sub(r"[^a-z0-9 -]", "", table.title.lower()).replace(" ", "-")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
