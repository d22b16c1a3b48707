"""Run the journal's statements: files of plain SQL, each by its name.

Any PostgreSQL has to run them, and databases that speak its protocol: they take no advisory locks, listen to nothing, call no functions of ours, make no
temporary tables, and change a row once a statement. A test reads them all.
"""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Any

import psycopg
from psycopg import abc
from psycopg.pq import TransactionStatus
from psycopg.rows import namedtuple_row
from psycopg.waiting import Ready, Wait

from seriatim.box.connection.exchange import PreparingConnection, as_sent, execute_alone, rows_of
from seriatim.box.postgres.array_text import written

__all__ = ["Statements", "names", "send_all", "statement", "version_script"]

#: The time of the statement, in microseconds since 1970, by the database's clock.
_NOW = "CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint)"
_PACKAGE = "seriatim.regions.journal"


@cache
def names() -> tuple[str, ...]:
    """The names of all statements."""
    files = resources.files(_PACKAGE).joinpath("sql").iterdir()
    return tuple(sorted(file.name.removesuffix(".sql") for file in files if file.name.endswith(".sql")))


@cache
def statement(name: str, schema: str) -> bytes:
    """A statement for a schema, without its comments."""
    text = resources.files(_PACKAGE).joinpath(f"sql/{name}.sql").read_text(encoding="utf-8")
    lines = (line for line in text.splitlines() if not line.startswith("--"))
    return "\n".join(lines).replace("{schema}", schema).replace("{now}", _NOW).encode()


def version_script(file: str, schema: str) -> bytes:
    """The statements that bring a schema to a version."""
    text = resources.files(_PACKAGE).joinpath(f"versions/{file}").read_text(encoding="utf-8")
    return text.replace("{schema}", schema).encode()


def send_all(connection: psycopg.Connection[Any]) -> None:
    """Send what was asked in a pipeline so far. The driver leaves what the socket doesn't take at once, and then waits for an answer to it."""
    pgconn = connection.pgconn

    def sending() -> abc.PQGen[None]:
        while pgconn.flush():
            ready = yield Wait.RW
            if ready & Ready.R:
                pgconn.consume_input()  # else the server may wait for us to take its answers

    if pgconn.flush():
        connection.wait(sending())


class Statements:
    """The journal's statements, on one connection. Rows are named tuples; lists are sent as the text of arrays.

    Args:
        connection: the connection.
        schema: the journal's schema.
    """

    __slots__ = ("connection", "schema")

    def __init__(self, connection: PreparingConnection, schema: str) -> None:
        self.connection = connection
        self.schema = schema

    def rows(self, name: str, /, **parameters: Any) -> list[Any]:
        """All rows of a statement's result."""
        with self.connection.cursor(row_factory=namedtuple_row) as cursor:
            return cursor.execute(statement(name, self.schema), written(parameters)).fetchall()

    def maybe(self, name: str, /, **parameters: Any) -> Any | None:
        """The first row of a statement's result; None if it has none."""
        return next(iter(self.rows(name, **parameters)), None)

    def do(self, name: str, /, **parameters: Any) -> int:
        """Execute a statement for its effect; returns the number of rows that it has changed."""
        return self.connection.execute(statement(name, self.schema), written(parameters)).rowcount

    def alone(self, name: str, /, **parameters: Any) -> list[Any]:
        """The rows of a statement that is a transaction of its own, in one round trip; in a transaction that has begun it is a part of that."""
        connection = self.connection
        if connection.pgconn.transaction_status != TransactionStatus.IDLE:
            return self.rows(name, **parameters)
        sent = as_sent(connection.adapter(), (statement(name, self.schema), written(parameters)))
        return rows_of(connection, execute_alone(connection, [sent]), sent.text)

    def several(self, *asked: tuple[str, dict[str, Any]], ends: bool = False) -> list[list[Any]]:
        """The rows of several statements, one after another, in one round trip; none for those that return no rows.

        Args:
            asked: names of statements with their parameters.
            ends: whether the transaction commits in the same round trip.
        """
        with self.connection.pipeline():
            cursors = [self.connection.cursor(row_factory=namedtuple_row) for _ in asked]
            for cursor, (name, parameters) in zip(cursors, asked, strict=True):
                cursor.execute(statement(name, self.schema), written(parameters))
                send_all(self.connection)
            if ends:
                self.connection.commit()
        found = [cursor.fetchall() if cursor.description else [] for cursor in cursors]
        for cursor in cursors:
            cursor.close()
        return found
