"""The connections of a process to one message box: which PostgreSQL it is, and transactions for whoever wants one."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row
from psycopg_pool import ConnectionPool

from seriatim.box.access import Access
from seriatim.box.away import Reach
from seriatim.box.definitions import Known
from seriatim.box.dsn import place_of, resolve
from seriatim.box.embedded import EmbeddedServer, peer_of
from seriatim.box.identity import Identity, identity_of
from seriatim.box.migrate import check, find, migrate
from seriatim.box.process import check_process
from seriatim.box.round_trip import OwnConnection
from seriatim.box.settings import set_for_transactions, set_on
from seriatim.box.statements import checked_schema, statement
from seriatim.box.translate import is_out_of_step, reached, translated
from seriatim.errors import EnvironmentProblem, SchemaMismatch, Unavailable, UsageError, shown
from seriatim.kernel.time import micros

__all__ = ["DEFAULT_SCHEMA", "FOLDER", "VARIABLE", "Closing", "Connections", "connected_once", "kept_connection"]

DEFAULT_SCHEMA = "seriatim"
#: Names the PostgreSQL to use where the program names none.
VARIABLE = "SERIATIM_DSN"
#: Where the embedded PostgreSQL keeps its data, below where the program was started.
FOLDER = Path(".seriatim/postgres")
#: PostgreSQL takes as many milliseconds as 32 bits have.
_LONGEST_TURN_MS = 24 * 86_400 * 1000
#: So many transactions beside those of sessions, at most; they are short.
_APART = 2
#: A pool tries for so long to make a connection, less and less often, and then begins again if somebody waits for one:
#: so there is about one try a second, and one soon after the server is back, however long it was away.
_TRY_S = 5.0
#: Kept unless the DSN says otherwise. A machine that vanished is noticed in half a minute.
_SETTINGS: dict[str, Any] = {
    "application_name": "seriatim",
    "connect_timeout": 10,
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 4,
}


#: Pools of the process that this one was forked from.
_OF_OTHERS: list[object] = []
_FORKED = threading.Lock()


class Closing:
    """What is closed at the end of a ``with``."""

    def close(self) -> None:
        """Let go of what it has."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Connections(Closing):
    """The connections to a box whose schema is there, and of this version; `open` sees to that.

    Args:
        dsn: the PostgreSQL, with all secrets.
        schema: the schema of the box.
        place: host, database and schema, for errors.
        identity: which box it is, as of `identity_of`.
        server: the embedded PostgreSQL, if that is the one.
        most: at most so many at once.
        turn_limit: seconds (or ``"60s"``) after which PostgreSQL ends a connection that does nothing in the midst of a
            transaction; None: never.
    """

    def __init__(
        self,
        dsn: str,
        schema: str,
        place: str,
        identity: str | None,
        server: EmbeddedServer | None,
        most: int,
        turn_limit: float | str | None = None,
    ) -> None:
        self.dsn = dsn
        self.place = place
        #: The box, for what works in it.
        self.access = Access(schema, place, Known(schema), Identity(schema, place, identity), self.apart)
        self._server = server
        self._most = most
        self._limit_ms = None if turn_limit is None else _turn_limit_ms(turn_limit)
        self._open_pools()

    def _open_pools(self) -> None:
        """Make the pools of this process."""
        self._process = os.getpid()
        # Asked for each new connection, since the embedded server may have to be found again.
        where = self.dsn if self._server is None else self._server.found_again
        settings, reach = _settings(self.dsn), Reach(self.place)
        set_up = partial(_set_up, self.access.identity, reach)
        self._pool = _pool(where, settings, self._most, reach.pool_name(), partial(set_up, self._limit_ms))
        # For sessions that need another transaction: they hold a connection, and shall not wait for each other's.
        self._second = _pool(where, settings, _APART, reach.pool_name(), partial(set_up, None))
        self._finalizer = weakref.finalize(self, _close, (self._pool, self._second), self._server, self._process)

    @classmethod
    def open(
        cls,
        dsn: str | None,
        schema: str,
        most: int,
        turn_limit: float | str | None = None,
        *,
        create: bool = True,
        owner: bool = False,
    ) -> Self:
        """Open them; arguments and errors are those of `MessageBox.open`.

        With `owner`, only for a role that owns the box: `EnvironmentProblem` for others.
        """
        _check_most(most)
        if turn_limit is not None:
            _turn_limit_ms(turn_limit)
        server, dsn, place = _locate(dsn, checked_schema(schema))
        try:
            with _connected(dsn, place) as connection:
                found = find(connection, schema)
                if server is not None if found is not None else create:
                    migrate(connection, schema)
                else:
                    check(connection, schema, found)
                if owner:
                    _check_owner(connection, schema, place)
                identity = identity_of(connection, schema)
            return cls(dsn, schema, place, identity, server, most, turn_limit)
        except BaseException:
            if server is not None:
                server.close()
            raise

    def transaction(self) -> AbstractContextManager[OwnConnection]:
        """One transaction, which commits at the end of the block and is rolled back by an exception.

        Errors of the driver are translated where it is begun and committed, not those of the block. A process that was
        forked makes connections of its own.

        Raises:
            UsageError: they are closed, or the process was forked in the midst of the block.
            Unavailable: no connection, or the transaction has to be repeated.
        """
        self._check_open()
        return _Transaction(self._pool, self.place)

    def apart(self) -> AbstractContextManager[OwnConnection]:
        """One for a session that has a connection already."""
        self._check_open()
        return _Transaction(self._second, self.place)

    def close(self) -> None:
        """Close them; the embedded PostgreSQL stops with its last user. Closing again does nothing."""
        self._finalizer()

    def _check_open(self) -> None:
        if not self._finalizer.alive:
            raise UsageError("the message box is closed", remedy="open it again")
        if os.getpid() != self._process:
            with _FORKED:
                if os.getpid() != self._process:
                    # The threads of these are the other process's, and so are their connections, which nobody here closes.
                    _OF_OTHERS.append((self._pool, self._second))
                    self._finalizer.detach()
                    self._open_pools()


class _Transaction:
    """One transaction, on a connection that a pool lends for it."""

    __slots__ = ("_connection", "_place", "_pool", "_process")

    def __init__(self, pool: ConnectionPool[OwnConnection], place: str) -> None:
        self._pool = pool
        self._place = place
        self._process = os.getpid()

    def __enter__(self) -> OwnConnection:
        with translated(self._place):
            while True:
                self._connection = connection = self._pool.getconn()
                try:
                    connection.begin_anew()
                except BaseException as error:
                    connection.close()
                    self._pool.putconn(connection)
                    if not isinstance(error, psycopg.OperationalError):
                        raise
                else:  # after an error there is another one, and a new one is as it has to be
                    return connection

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        connection = self._connection
        if os.getpid() != self._process:  # it is the other process's, which goes on with it
            if error is None:
                check_process(self._process)
            return
        connection.given_back()
        try:
            if error is not None:
                if is_out_of_step(error) or is_out_of_step(error.__cause__):
                    connection.close()
                with suppress(psycopg.Error):  # what went wrong first is what is told
                    connection.rollback()
            elif connection.pgconn.transaction_status != TransactionStatus.IDLE:
                try:
                    with translated(self._place):
                        connection.commit()
                except Unavailable as failed:
                    if is_out_of_step(failed.__cause__):
                        connection.close()
                    raise
        finally:
            broken = connection.closed
            self._pool.putconn(connection)
            if broken:  # the server was restarted: the others are broken, too, and the next session shall not get one
                self._pool.check()


@contextmanager
def connected_once(dsn: str | None, schema: str) -> Iterator[tuple[psycopg.Connection, str]]:
    """A connection for one transaction with the place of the box, whatever is there; arguments as of `Connections.open`.

    Raises:
        UsageError: not a DSN, or not the name of a schema.
        EnvironmentProblem: PostgreSQL can't be reached or started.
    """
    server, dsn, place = _locate(dsn, checked_schema(schema))
    try:
        with _connected(dsn, place) as connection:
            yield connection, place
    finally:
        if server is not None:
            server.close()


def kept_connection(dsn: str, place: str) -> psycopg.Connection:
    """A connection outside any pool and any transaction, for what lasts as long as it does: each statement commits.

    Args:
        dsn: the PostgreSQL, with all secrets.
        place: host, database and schema, for errors.

    Raises:
        EnvironmentProblem: PostgreSQL can't be reached.
    """
    with reached(place, str(conninfo_to_dict(dsn).get("password") or os.environ.get("PGPASSWORD") or "")):
        connection = psycopg.connect(dsn, autocommit=True, **_settings(dsn))
    with translated(place):
        set_on(connection)
    return connection


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
    with reached(place, str(conninfo_to_dict(dsn).get("password") or os.environ.get("PGPASSWORD") or "")):
        connection = psycopg.connect(dsn, **_settings(dsn))
    try:
        with translated(place), connection:
            set_for_transactions(connection)
            set_on(connection)
            yield connection
    except SchemaMismatch as error:
        raise SchemaMismatch(error.what, where=error.where or place, remedy=error.remedy) from error.__cause__


def _settings(dsn: str) -> dict[str, Any]:
    given = conninfo_to_dict(dsn)
    return {name: value for name, value in (_SETTINGS | peer_of(given.get("host"))).items() if name not in given}


def _pool(
    where: str | Callable[[], str],
    settings: dict[str, Any],
    most: int,
    name: str,
    configure: Callable[[OwnConnection], None],
) -> ConnectionPool[OwnConnection]:
    # Connections are made when they are needed, so that opening a box costs one and idle ones go.
    return ConnectionPool(
        where, connection_class=OwnConnection, kwargs=settings, min_size=0, max_size=most, open=True, name=name,
        configure=configure, reconnect_timeout=_TRY_S, reconnect_failed=_try_again,
    )  # fmt: skip


def _try_again(pool: ConnectionPool[Any]) -> None:
    """Who waits for a connection asks no more for one to be made; it is asked here."""
    if pool.get_stats().get("requests_waiting"):
        pool.check()


def _check_most(most: object) -> None:
    if isinstance(most, bool) or not isinstance(most, int) or most < 1:
        raise UsageError(f"{shown(most)} connections can't be had", remedy="a whole number from 1")


def _turn_limit_ms(limit: float | str) -> int:
    """A limit in milliseconds.

    Raises:
        UsageError: PostgreSQL takes no such limit, or would take it for none.
    """
    if not 1 <= (limit_ms := round(micros(limit) / 1000)) <= _LONGEST_TURN_MS:
        raise UsageError(
            f"turn_limit can't be {shown(limit)}", remedy='seconds, or "60s", from a millisecond to 24 days'
        )
    return limit_ms


def _set_up(identity: Identity, reach: Reach, limit_ms: int | None, connection: OwnConnection) -> None:
    """What a new connection knows; PostgreSQL ends one that does nothing for so long in the midst of a transaction."""
    identity.remember(connection)
    connection.turn_limit_ms = limit_ms
    set_for_transactions(connection)
    set_on(connection, limit_ms)
    connection.commit()
    reach.made()


def _check_owner(connection: psycopg.Connection, schema: str, place: str) -> None:
    with connection.cursor(row_factory=tuple_row) as cursor:
        ((role, owner, is_owner),) = cursor.execute(statement("owner", schema), {"schema": schema}).fetchall()
    if not is_owner:
        raise EnvironmentProblem(
            f"the role {role!r} doesn't own the message box",
            where=place,
            remedy=f"what Spark reads and writes is beyond what `seriatim box grant` gives: use a DSN of {owner!r}",
        )


def _close(pools: Iterable[ConnectionPool[OwnConnection]], server: EmbeddedServer | None, process: int) -> None:
    if os.getpid() == process:  # in a forked child the threads of the pools are gone
        for pool in pools:
            pool.close()
    if server is not None:
        server.close()
