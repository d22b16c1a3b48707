"""The table port: a row for each message, in the box's own database exactly once, or in another database at least once."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout

from seriatim.endpoints.delivery import Delivered, Transaction, given_messages, in_hand
from seriatim.errors import Business, Transient, UsageError
from seriatim.pipeline.text.name import checked_name
from seriatim.pipeline.text.typed import typed
from seriatim.pipeline.types.message import Received
from seriatim.rested import RestedConnection, Restedness

_MOST_CONNECTIONS = 32
_PATIENCE_S = 10.0
_SETTINGS: dict[str, Any] = {
    "application_name": "seriatim port", "connect_timeout": 10,
    "keepalives": 1, "keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 4, "tcp_user_timeout": 30_000,
}  # fmt: skip


def _text(message: Received) -> str:
    try:
        text = message.body.decode()
    except UnicodeDecodeError:
        raise Business("the body isn't UTF-8, but the port writes it into a text column") from None
    if "\0" in text:
        raise Business("the body contains a NUL, which PostgreSQL can't store as text")
    return text


#: The sources of a column, besides properties.
_OWN: Mapping[str, Callable[[Delivered, Received], Any]] = {
    "body": lambda _, message: message.body,
    "body_text": lambda _, message: _text(message),
    "content_type": lambda _, message: message.content_type,
    "epoch": lambda _, message: message.ticket.epoch,
    "group": lambda delivered, _: delivered.group,
    "incarnation": lambda delivered, _: delivered.incarnation,
    "late": lambda _, message: message.late,
    "location": lambda _, message: message.ticket.location,
    "message_id": lambda _, message: message.message_id,
    "ordinal": lambda _, message: message.ordinal,
    "queue": lambda delivered, _: delivered.queue,
    "received_at": lambda _, message: message.received_at,
    "sequence": lambda _, message: message.sequence,
    "ticket": lambda _, message: message.ticket.number,
    "type": lambda _, message: message.type,
}


class TablePort:
    """A handler that inserts rows, or updates existing rows."""

    @typed
    def __init__(
        self, table: str, columns: Mapping[str, str], *, key: Sequence[str] = (), dsn: str | None = None
    ) -> None:
        names = table.split(".")
        if len(names) > 2:
            raise UsageError(f"{table!r} is not the name of a table", remedy="name, or schema.name")
        if not columns:
            raise UsageError("the port writes no columns", remedy="columns: a property for each column")
        for name in (*names, *columns, *columns.values()):
            checked_name(name, "a name of a table, a column or a property")
        if not set(key) <= set(columns):
            raise UsageError(
                "the key must be a list of columns that the port writes", remedy=f"some of {', '.join(columns)}"
            )
        self._statement = _upsert(names, list(columns), list(key))
        #: The source of each column: the name of a property, or one of ``body``, ``body_text`` (decoded), ``content_type``, ``epoch``,
        #: ``group``, ``incarnation``, ``late``, ``location``, ``message_id``, ``ordinal``, ``queue``, ``received_at``, ``sequence``,
        #: ``ticket``, ``type``. Missing values are NULL.
        self._columns = dict(columns)
        self._restedness = Restedness()
        self._pool: ConnectionPool[RestedConnection] | None = None
        #: The other PostgreSQL, without secrets, for errors.
        self.place = ""
        if dsn is not None:
            self.place = _place(dsn)
            self._pool = ConnectionPool(
                dsn, kwargs=_SETTINGS, min_size=0, max_size=_MOST_CONNECTIONS, open=False, timeout=_PATIENCE_S,
                name="seriatim-port", connection_class=RestedConnection,
            )  # fmt: skip

    def __call__(self, received: Received | Delivered, tx: Transaction) -> None:
        """Write the given messages, in one statement for all of them."""
        delivered = in_hand(tx)
        rows = [self._row(delivered, message) for message in given_messages(received)]
        if self._pool is None:
            self._write(tx.connection, rows)
            return
        try:
            self._pool.open()
            connection = self._taken(self._pool)
            try:
                with connection:
                    self._write(connection, rows)
            finally:
                connection.used_at = time.monotonic()
                self._pool.putconn(connection)
        except PoolClosed:
            raise UsageError("the port is closed", remedy="create another TablePort") from None
        except PoolTimeout:
            problem = f"no connection could be made within {_PATIENCE_S:g} s"
            raise Transient(
                problem, where=self.place, remedy="check that the server is running and has free connections"
            ) from None
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            raise Transient(" ".join(str(error).split()), where=self.place) from error

    def _taken(self, pool: ConnectionPool[RestedConnection]) -> RestedConnection:
        while True:
            connection = pool.getconn()
            try:
                self._restedness.check(connection)
            except psycopg.Error:
                pool.putconn(connection)
            else:
                return connection

    def close(self) -> None:
        """Close the connections to another PostgreSQL."""
        if self._pool is not None:
            self._pool.close()

    def _row(self, delivered: Delivered, message: Received) -> list[Any]:
        return [
            _OWN[source](delivered, message) if source in _OWN else message.context.get(source)
            for source in self._columns.values()
        ]

    def _write(self, connection: psycopg.Connection, rows: list[list[Any]]) -> None:
        with connection.cursor() as cursor:
            if len(rows) == 1:
                cursor.execute(self._statement, rows[0])
            else:  # in one pipeline, in order
                cursor.executemany(self._statement, rows)


def _place(dsn: str) -> str:
    """Host, port and database of a DSN."""
    try:
        parts = conninfo_to_dict(dsn)
    except psycopg.ProgrammingError:
        raise UsageError("the DSN of the port can't be read", remedy="postgresql://user@host/database") from None
    host = parts.get("host") or parts.get("service") or "localhost"
    return f"{host}:{parts.get('port') or 5432}/{parts.get('dbname') or ''}"


def _upsert(table: Sequence[str], columns: Sequence[str], key: Sequence[str]) -> sql.Composed:
    """The statement, with every name quoted."""
    comma = sql.SQL(", ")
    statement = sql.SQL("INSERT INTO {} ({}) VALUES ({})").format(
        sql.Identifier(*table), comma.join(map(sql.Identifier, columns)), comma.join(sql.Placeholder() * len(columns))
    )
    if not key:
        return statement
    rest = [name for name in columns if name not in key]
    sets = comma.join(sql.SQL("{0} = excluded.{0}").format(sql.Identifier(name)) for name in rest)
    done = sql.SQL("DO UPDATE SET {}").format(sets) if rest else sql.SQL("DO NOTHING")
    return statement + sql.SQL(" ON CONFLICT ({}) {}").format(comma.join(map(sql.Identifier, key)), done)
