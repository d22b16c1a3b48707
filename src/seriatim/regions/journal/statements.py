"""Run the journal's statements: files of plain SQL, each by its name.

Any PostgreSQL has to run them, and databases that speak its protocol: they take no advisory locks, listen to nothing, call no functions of
ours, make no temporary tables, and change a row once a statement. A test reads them all.
"""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg import abc
from psycopg.pq import TransactionStatus
from psycopg.rows import namedtuple_row
from psycopg.waiting import Ready, Wait

from seriatim.box.connection.exchange import PreparingConnection, as_sent, execute_alone, rows_of
from seriatim.box.postgres.array_text import written
from seriatim.box.postgres.statements import Statements, statement


def send_all(connection: psycopg.Connection[Any]) -> None:
    """Send the queued statements of a pipeline. The driver would leave what the socket doesn't take, and wait for its answer."""
    pgconn = connection.pgconn

    def sending() -> abc.PQGen[None]:
        while pgconn.flush():
            ready = yield Wait.RW
            if ready & Ready.R:
                pgconn.consume_input()  # otherwise the server may wait for us to read its answers

    if pgconn.flush():
        connection.wait(sending())


class JournalStatements(Statements):
    __slots__ = ()
    package = "seriatim.regions.journal"
    connection: PreparingConnection

    def text(self, name: str) -> bytes:
        """A statement, without its comments."""
        return statement(name, self.schema, package=self.package)

    def alone(self, name: str, /, **parameters: Any) -> list[Any]:
        """Return the rows of a statement that is a transaction by itself, in one round trip; or a part of an open transaction."""
        connection = self.connection
        if connection.pgconn.transaction_status != TransactionStatus.IDLE:
            return self.rows(name, **parameters)
        sent = as_sent(connection.adapter(), (self.text(name), written(parameters)))
        return rows_of(connection, execute_alone(connection, [sent]), sent.text)

    def several(self, *calls: tuple[str, dict[str, Any]], ends: bool = False) -> list[list[Any]]:
        """Return the rows of several statements, one after another, in one round trip; none for statements without rows."""
        with self.connection.pipeline():
            cursors = [self.connection.cursor(row_factory=namedtuple_row) for _ in calls]
            for cursor, (name, parameters) in zip(cursors, calls, strict=True):
                cursor.execute(self.text(name), written(parameters))
                send_all(self.connection)
            if ends:
                self.connection.commit()
        results = [cursor.fetchall() if cursor.description else [] for cursor in cursors]
        for cursor in cursors:
            cursor.close()
        return results
