"""Run the SQL statements of the box: one file for each, with the schema's name put in as an identifier."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from importlib import resources
from typing import Any, TypeVar, overload

import psycopg
from psycopg import sql
from psycopg.rows import class_row, dict_row, namedtuple_row

from seriatim.box.postgres.arrays import written
from seriatim.errors import UsageError, shown

__all__ = ["Statements", "checked_schema", "script", "statement", "template"]

_Row = TypeVar("_Row")

_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,62}", re.ASCII)


def checked_schema(schema: str) -> str:
    """The name of a box's schema.

    Raises:
        UsageError: it isn't one that works everywhere unquoted.
    """
    if not isinstance(schema, str) or not _SCHEMA.fullmatch(schema) or schema.startswith("pg_"):
        raise UsageError(
            f"{shown(schema)} can't be the schema of a message box",
            remedy="at most 63 of a-z, 0-9 and _, not beginning with a digit or pg_",
        )
    return schema


class Statements:
    """The statements of a box, executed on one connection: each is a file, called by its name with named parameters.

    Rows are named tuples after the columns, or of a class whose fields have the names of the columns, or dictionaries.
    Lists of numbers, booleans or texts are sent as the text of an array, of which the statement says the type.

    Args:
        connection: a psycopg connection.
        schema: the schema of the box.
    """

    __slots__ = ("connection", "schema")

    def __init__(self, connection: psycopg.Connection, schema: str) -> None:
        self.connection = connection
        self.schema = schema

    @overload
    def rows(self, name: str, of: None = None, /, **parameters: Any) -> list[Any]: ...
    @overload
    def rows(self, name: str, of: type[_Row], /, **parameters: Any) -> list[_Row]: ...
    def rows(self, name: str, of: type | None = None, /, **parameters: Any) -> list[Any]:
        """All rows of a statement's result."""
        with self.connection.cursor(row_factory=_factory(of), binary=True) as cursor:
            return cursor.execute(statement(name, self.schema), written(parameters)).fetchall()

    @overload
    def one(self, name: str, of: None = None, /, **parameters: Any) -> Any: ...
    @overload
    def one(self, name: str, of: type[_Row], /, **parameters: Any) -> _Row: ...
    def one(self, name: str, of: type | None = None, /, **parameters: Any) -> Any:
        """The first row of a statement that always has one."""
        return self.rows(name, of, **parameters)[0]

    @overload
    def maybe(self, name: str, of: None = None, /, **parameters: Any) -> Any | None: ...
    @overload
    def maybe(self, name: str, of: type[_Row], /, **parameters: Any) -> _Row | None: ...
    def maybe(self, name: str, of: type | None = None, /, **parameters: Any) -> Any | None:
        """The first row of a statement's result; None if it has none."""
        return next(iter(self.rows(name, of, **parameters)), None)

    def portions(self, name: str, size: int, /, **parameters: Any) -> Iterator[list[Any]]:
        """The rows of a large result, at most `size` at once; the server keeps the rest."""
        with self.connection.cursor(name, row_factory=namedtuple_row, binary=True) as cursor:
            cursor.execute(statement(name, self.schema), written(parameters))
            while rows := cursor.fetchmany(size):
                yield rows

    def do(self, name: str, /, **parameters: Any) -> int:
        """Execute a statement for what it does; gives how many rows it has changed, or found."""
        return self.connection.execute(statement(name, self.schema), written(parameters)).rowcount


def _factory(of: type | None) -> Any:
    if of is None:
        return namedtuple_row
    return dict_row if of is dict else class_row(of)


@cache
def statement(name: str, schema: str) -> bytes:
    """The statement of the file ``NAME.sql`` for a schema, without its header comment."""
    lines = template(_files()[name]).splitlines()
    return _for_schema("\n".join(line for line in lines if not line.startswith("--")), schema)


def script(name: str, schema: str) -> bytes:
    """A file of several statements, ``migrations/NAME``, with its comments."""
    return _for_schema(template(name), schema)


def template(name: str) -> str:
    """A file of the package as it is, the schema's name left open."""
    return resources.files("seriatim.box.postgres").joinpath(name).read_text(encoding="utf-8")


@cache
def _files() -> dict[str, str]:
    """The files of statements by their names, which are different in all rooms."""
    rooms = resources.files("seriatim.box.postgres").joinpath("sql").iterdir()
    return {
        file.name.removesuffix(".sql"): f"sql/{room.name}/{file.name}"
        for room in rooms
        if room.is_dir()
        for file in room.iterdir()
    }


def _for_schema(text: str, schema: str) -> bytes:
    written = sql.SQL(text)  # a file of ours, not a stranger's text
    return written.format(schema=sql.Identifier(checked_schema(schema))).as_bytes(None)
