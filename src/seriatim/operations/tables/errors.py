"""Counts of errors."""

from __future__ import annotations

from seriatim.box.views.listing import ErrorCount
from seriatim.operations.tables.table import Column, Table, columns
from seriatim.operations.tables.texts import first_line

#: What `--by error` prints.
ERRORS: Table[ErrorCount] = Table(
    "A count of an error",
    *columns("count", "error"),
    Column("example", shown=lambda one: None if one.example is None else first_line(one.example)),
    Column("last"),
    row=ErrorCount,
)
