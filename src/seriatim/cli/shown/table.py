"""What a command prints: a table as lines for people, or as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Sized
from typing import Any, TypeVar

import click

from seriatim.operations.tables.table import (
    Column,
    Table,
    as_json,
    as_json_line,
    columns,
    json_only,
    shown_value,
    text_only,
)
from seriatim.pipeline.text.plain import in_line

__all__ = ["Column", "Table", "as_json", "as_json_line", "columns", "json_only", "text_only"]

_Row = TypeVar("_Row")
_Command = TypeVar("_Command", bound=Callable[..., Any])


def tell(*lines: str, err: bool = False) -> None:
    """Print lines for people, each in one line, whatever is in it."""
    for line in lines:
        click.echo(in_line(line), err=err)


def lines_of(table: Table[_Row], rows: Sequence[_Row]) -> Iterator[str]:
    """Rows as lines for people, below the headings."""
    if not rows and table.nothing is not None:
        return iter((table.nothing,))
    shown = table.shown_for(rows)
    return in_columns(shown.headings, [shown.cells(row) for row in rows])


def print_rows(table: Table[_Row], rows: Sequence[_Row], *, json_: bool = False, limit: int | None = None) -> None:
    """Print rows: as a JSON list, or for people, with a note if there may be more than the limit."""
    if json_:
        click.echo(as_json(table.objects_of(rows)))
        return
    tell(*lines_of(table, rows))
    note_limit(rows, limit)


def note_limit(rows: Sized, limit: int | None) -> bool:
    """Whether a list has reached its limit; then it says so."""
    if limit is None or not rows or len(rows) < limit:
        return False
    click.echo(f"stopped at {limit:,}, there may be more: --limit N lists more", err=True)
    return True


def print_object(table: Table[Any], row: object, /, **given: object) -> None:
    """Print a row as one JSON object; see `Table.object_of`."""
    click.echo(as_json(table.object_of(row, **given)))


def print_row(table: Table[Any], row: object, *lines: str, json_: bool) -> None:
    """Print a row: as one JSON object; or for people as lines, or else as a table."""
    if json_:
        print_object(table, row)
    elif lines:
        tell(*lines)
    else:
        print_rows(table, [row])


class JsonOption(click.Option):
    """The option ``--json`` of a command; it knows the tables that the command prints."""

    def __init__(self, *arguments: Any, tables: tuple[Table[Any], ...] = (), **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.tables = tables


def json_option(told: str, *tables: Table[Any]) -> Callable[[_Command], _Command]:
    """The option ``json_``: print JSON, namely rows of these tables."""
    return click.option("--json", "json_", is_flag=True, help=told, cls=JsonOption, tables=tables)


def in_columns(titles: Sequence[str], rows: Sequence[Sequence[object]]) -> Iterator[str]:
    """A table for people, line by line: None is an empty cell, numbers are aligned to the right."""
    texts = [[in_line(shown_value(one)) for one in row] for row in rows]
    widths = [max(map(width_of, column)) for column in zip(titles, *texts, strict=True)]
    right = [bool(rows) and all(isinstance(row[at], int | None) for row in rows) for at in range(len(titles))]
    for line in (titles, *texts):
        cells = (
            " " * (width - width_of(text)) + text if to_the_right else text + " " * (width - width_of(text))
            for text, width, to_the_right in zip(line, widths, right, strict=True)
        )
        yield "  ".join(cells).rstrip()


def width_of(text: str) -> int:
    """The number of terminal columns that a text takes: some characters take two, or none."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # noqa: PLC0415 -- rarely needed

    return cell_len(text)
