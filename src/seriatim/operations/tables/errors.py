"""Counts of errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seriatim.operations.tables.table import Column, Table

if TYPE_CHECKING:
    from seriatim.box.views.filters import ErrorCount

__all__ = ["ERRORS"]

#: What `--by error` prints.
ERRORS: Table[ErrorCount] = Table(
    "A count of an error",
    Column("count"),
    Column("error"),
    Column("example", shown=lambda one: None if one.example is None else _first_line(one.example)),
    Column("last"),
    row="seriatim.box.views.filters:ErrorCount",
)


def _first_line(text: str) -> str:
    line = text.partition("\n")[0]
    return line if len(line) <= 80 else f"{line[:79]}…"
