"""The message box: opens it, and gives sessions."""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg_pool import ConnectionPool

from seriatim.box.access import Access
from seriatim.box.define import Definition, define
from seriatim.box.definitions import Known
from seriatim.box.dsn import place_of, resolve
from seriatim.box.embedded import EmbeddedServer
from seriatim.box.migrate import Migration, check, migrate, version_of
from seriatim.box.session import Session, checked_connection
from seriatim.box.statements import checked_schema
from seriatim.box.status import BoxStatus, read_status
from seriatim.box.translate import reached, translated
from seriatim.errors import SchemaMismatch, UsageError

__all__ = ["DEFAULT_SCHEMA", "FOLDER", "VARIABLE", "MessageBox"]

DEFAULT_SCHEMA = "seriatim"
#: Names the PostgreSQL to use where the program names none.
VARIABLE = "SERIATIM_DSN"
#: Where the embedded PostgreSQL keeps its data, below where the program was started.
FOLDER = Path(".seriatim/postgres")
#: Kept unless the DSN says otherwise. A machine that vanished is noticed in half a minute.
_SETTINGS: dict[str, Any] = {
    "application_name": "seriatim",
    "connect_timeout": 10,
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 4,
}


class MessageBox:
    """A message box: a schema of a PostgreSQL database. Open it with `open`; close it, or use it with ``with``.

    Threads may share it; each session is one thread's. A process that was forked opens its own.
    """

    def __init__(self, dsn: str, schema: str, place: str, server: EmbeddedServer | None, connections: int) -> None:
        self._dsn = dsn
        self._schema = schema
        self._place = place
        self._process = os.getpid()
        self._access = Access(schema, place, Known(schema), self._transaction)
        settings = {name: value for name, value in _SETTINGS.items() if name not in conninfo_to_dict(dsn)}
        # Connections are made when they are needed, so that opening a box costs one and idle ones go.
        self._pool = ConnectionPool(dsn, kwargs=settings, min_size=0, max_size=connections, open=True, name="seriatim")
        self._finalizer = weakref.finalize(self, _close, self._pool, server, self._process)

    @classmethod
    def open(cls, dsn: str | None = None, *, schema: str = DEFAULT_SCHEMA, connections: int = 20) -> Self:
        """Open a box.

        A schema that isn't there yet is made. An older one is brought up to date in the embedded PostgreSQL, and
        refused elsewhere: that is for whoever runs it, with ``seriatim box migrate``.

        Args:
            dsn: the PostgreSQL, 16 or newer: a URI, ``key=value`` text, or ``file:PATH`` of a file of mode 600;
                ``${NAME}`` is taken from the environment. None: what ``SERIATIM_DSN`` says, or else a private one
                under ``./.seriatim/postgres``, which is started where nobody has, and stops with its last user.
            schema: the schema of the box; a database may have several.
            connections: at most so many at once.

        Raises:
            UsageError: not a DSN, or not the name of a schema.
            EnvironmentProblem: PostgreSQL can't be reached or started, or is too old.
            SchemaMismatch: an older or newer schema, or one that isn't a box.
        """
        checked_schema(schema)
        server, dsn, place = _locate(dsn, schema)
        try:
            with _connected(dsn, place) as connection:
                if server is not None or version_of(connection, schema) is None:
                    migrate(connection, schema)
                else:
                    check(connection, schema)
            return cls(dsn, schema, place, server, connections)
        except BaseException:
            if server is not None:
                server.close()
            raise

    @classmethod
    def migrate(cls, dsn: str | None = None, *, schema: str = DEFAULT_SCHEMA) -> list[Migration]:
        """Make a box, or bring it up to date; the arguments and errors are those of `open`.

        Returns:
            the migrations that were applied; empty if it was up to date.
        """
        checked_schema(schema)
        server, dsn, place = _locate(dsn, schema)
        try:
            with _connected(dsn, place) as connection:
                return migrate(connection, schema)
        finally:
            if server is not None:
                server.close()

    @classmethod
    def check(cls, dsn: str | None = None, *, schema: str = DEFAULT_SCHEMA) -> BoxStatus:
        """Look whether this seriatim can work with a box, and change nothing; arguments and errors as of `open`.

        Raises:
            SchemaMismatch: also where there is none.
        """
        checked_schema(schema)
        server, dsn, place = _locate(dsn, schema)
        try:
            with _connected(dsn, place) as connection:
                check(connection, schema)
                return read_status(connection, schema, place)
        finally:
            if server is not None:
                server.close()

    @property
    def dsn(self) -> str:
        """How to reach its PostgreSQL, with all secrets: not for logs."""
        return self._dsn

    @property
    def schema(self) -> str:
        """Its schema."""
        return self._schema

    @contextmanager
    def session(self, connection: psycopg.Connection | None = None) -> Iterator[Session]:
        """One transaction, which commits at the end of the block and is rolled back by an exception.

        Args:
            connection: a psycopg connection of the caller's to the same database. Then the session takes part in
                the caller's transaction, and neither commits it nor rolls it back.

        Raises:
            UsageError: the box is closed, or the connection is none that a session can join.
            Unavailable: no connection, or the transaction has to be repeated. If the connection broke during the
                commit nobody knows whether it was done; publishing the same messages again is safe.
        """
        if connection is not None:
            with _session(Session(self._access, checked_connection(connection), own=False)) as session:
                yield session
        else:
            with self._transaction() as own, _session(Session(self._access, own, own=True)) as session:
                yield session

    def define(self, *definitions: Definition) -> None:
        """Define locations, message types, queues and subscriptions, all or none. Doing it again changes nothing.

        The next publish goes by it.

        Raises:
            UsageError: something that doesn't fit what is there: a queue or property that isn't defined, a filter.
            ActionRefused: a change that doesn't fit what is there.
        """
        with self._transaction() as connection, translated(self._place):
            define(connection, self._schema, self._access.known, definitions)

    def status(self) -> BoxStatus:
        """Version, size, and what each location gives next."""
        with self._transaction() as connection, translated(self._place):
            return read_status(connection, self._schema, self._place)

    def close(self) -> None:
        """Close it; the embedded PostgreSQL stops with its last user. Closing again does nothing."""
        self._finalizer()

    @contextmanager
    def _transaction(self) -> Iterator[psycopg.Connection]:
        if not self._finalizer.alive:
            raise UsageError("the message box is closed", remedy="open it again")
        if os.getpid() != self._process:
            raise UsageError("the message box was opened before this process was forked", remedy="open it here")
        with translated(self._place):
            connection = self._pool.getconn()
        try:
            try:
                yield connection
            except BaseException:
                with suppress(psycopg.Error):  # what went wrong first is what is told
                    connection.rollback()
                raise
            with translated(self._place):
                connection.commit()
        finally:
            broken = connection.closed
            self._pool.putconn(connection)
            if broken:  # the server was restarted: the others are broken, too, and the next session shall not get one
                self._pool.check()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<MessageBox {self._place}>"


@contextmanager
def _session(session: Session) -> Iterator[Session]:
    """Whoever makes a session ends it."""
    try:
        yield session
        session._end()  # noqa: SLF001 -- as said
    finally:
        session._forget()  # noqa: SLF001 -- as said


def _locate(dsn: str | None, schema: str) -> tuple[EmbeddedServer | None, str, str]:
    """The PostgreSQL to use: the server if it is the embedded one, the DSN, the place."""
    given = dsn if dsn is not None else os.environ.get(VARIABLE)
    if given is not None:
        found = resolve(given)
        return None, found, place_of(found, schema)
    server = EmbeddedServer(FOLDER)
    return server, server.dsn, f"{FOLDER}, schema {schema}"


@contextmanager
def _connected(dsn: str, place: str) -> Iterator[psycopg.Connection]:
    """A connection for one transaction, outside any pool: its errors come at once and say why."""
    parts = conninfo_to_dict(dsn)
    settings = {name: value for name, value in _SETTINGS.items() if name not in parts}
    with reached(place, str(parts.get("password") or os.environ.get("PGPASSWORD") or "")):
        connection = psycopg.connect(dsn, **settings)
    try:
        with translated(place), connection:
            yield connection
    except SchemaMismatch as error:
        raise SchemaMismatch(error.what, where=error.where or place, remedy=error.remedy) from error.__cause__


def _close(pool: ConnectionPool, server: EmbeddedServer | None, process: int) -> None:
    if os.getpid() == process:  # in a forked child the threads of the pool are gone
        pool.close()
    if server is not None:
        server.close()
