"""The connections of a process to one message box: connection pools, and transactions on their connections."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from socket import gethostname
from typing import Any, Self

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import PGconn, Ping, TransactionStatus
from psycopg_pool import ConnectionPool

from seriatim.box.connection.access import Access, PublishNotices
from seriatim.box.connection.dsn import place_of, resolve
from seriatim.box.connection.identity import Identity, identity_of
from seriatim.box.connection.interruption import interruption
from seriatim.box.connection.misuse import check_process
from seriatim.box.connection.reachability import Reach
from seriatim.box.connection.round_trip import OwnConnection, has_pooler
from seriatim.box.connection.settings import set_for_transactions, set_on
from seriatim.box.definitions.known import Known
from seriatim.box.postgres.migrate import BoxVersion, check, find, migrate
from seriatim.box.postgres.statements import Statements
from seriatim.box.postgres.template import checked_schema
from seriatim.box.postgres.translate import is_out_of_step, reached, translated, watch_version
from seriatim.box.server.embedded import EmbeddedServer, peer_of
from seriatim.errors import EnvironmentProblem, SchemaMismatch, Unavailable, UsageError, is_whole, shown
from seriatim.kernel.values.time import micros
from seriatim.rested import Restedness

DEFAULT_SCHEMA = "seriatim"
#: Names the PostgreSQL to use where the program names none.
VARIABLE = "SERIATIM_DSN"
#: Where the embedded PostgreSQL keeps its data, below where the program was started.
FOLDER = Path(".seriatim/postgres")
#: PostgreSQL stores the milliseconds in 32 bits.
_LONGEST_TURN_MS = 24 * 86_400 * 1000
#: How long a session that needs a second transaction, and can't use its own, waits for a free connection.
_SPARE_S = 0.5
#: The wait for a connection, for a receiver that waits forever, before it checks whether its wait was ended, seconds.
_SOON_S = 1.0
#: A connection that is idle for this time is closed after the same time again, for other processes: a server has few.
_IDLE_S = 15.0
#: For this time a pool tries to make a connection, less and less often, and then begins again if a user waits for one: so there is
#: about one attempt a second, and one soon after the server is back, after any absence.
_TRY_S = 5.0
#: PostgreSQL takes 63 characters as the name of an application; these are left for the machine's name.
_LONGEST_MACHINE = 40
#: Kept unless the DSN says otherwise. A machine that vanished is noticed in half a minute.
_SETTINGS: dict[str, Any] = {
    "connect_timeout": 10,
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 4,
    "tcp_user_timeout": 30_000,
}

#: Pools of the process that forked this one.
_OF_OTHERS: list[object] = []
_FORKED = threading.Lock()


class Closing:
    def close(self) -> None:
        """Close the connections; what goes on in them ends."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of the connections of a process for people, such as the console."""

    reads_only: bool = False
    #: Milliseconds after which PostgreSQL ends a statement; None: never.
    statement_ms: int | None = None
    #: Seconds for which a transaction waits for a connection; None: the pool's usual time.
    wait_s: float | None = None


class Connections(Closing):
    """The connections to a box; `open` has checked that the schema exists and has this version."""

    def __init__(
        self,
        shared: SharedPool,
        publish_notices: PublishNotices,
        most: int,
        limit_ms: int | None,
        *,
        unrouted: str | None,
        role: str | None = None,
    ) -> None:
        self.dsn = shared.dsn
        self._shared = shared
        self._most = most
        self._limit_ms = limit_ms
        self._role = role
        #: The box, for what works in it.
        self.access = Access(
            shared.identity.schema, shared.place, Known(), shared.identity, self.transaction, self.spare, publish_notices,
            unrouted=unrouted, role=role,
        )  # fmt: skip
        self._finalizer = weakref.finalize(self, shared.give_back, most)

    def more(self, most: int, turn_limit: float | str | None, role: str | None = None) -> Self:
        """Add connections to the same box, which all users share. `role`: each transaction of the new user runs as it; None: as here."""
        self._check_open()
        limit_ms, access = _turn_limit_ms(turn_limit), self.access
        self._shared.lend(most)
        return type(self)(
            self._shared, access.publish_notices, most, limit_ms, unrouted=access.unrouted, role=role or self._role
        )

    @classmethod
    def open(
        cls,
        publish_notices: PublishNotices,
        dsn: str | None,
        schema: str,
        most: int,
        turn_limit: float | str | None = None,
        *,
        create: bool = True,
        owner: bool = False,
        unrouted: str | None = None,
        limits: Limits | None = None,
    ) -> Self:
        """As `MessageBox.open`. `owner`: refuse roles that don't own the box, and a disabled box: pipelines need that."""
        if not is_whole(most, 1):
            raise UsageError(f"cannot open {shown(most)} connections", remedy="a whole number from 1")
        limit_ms = _turn_limit_ms(turn_limit)
        server, dsn, place = _locate(dsn, checked_schema(schema))
        try:
            with _connected(dsn, place) as connection:
                statements = Statements(connection, schema)
                applied = find(statements)
                if create if applied is None else server is not None and not applied.is_present:
                    migrate(statements)
                    applied = find(statements)
                else:
                    check(statements, applied)
                if owner:
                    _check_owner(statements, place)
                identity, pooled = Identity(schema, place, identity_of(connection, schema)), has_pooler(connection)
                why_disabled = identity.look(connection)
                if owner and why_disabled is not None:
                    identity.check_enabled(connection)
            version = BoxVersion(dsn, schema, applied)
            for named in (place, place_of(dsn, schema)):
                watch_version(named, version)
            shared = SharedPool(
                dsn, place, identity, server=server, version=version, most=most, limits=limits or Limits(), is_pooled=pooled
            )  # fmt: skip
            return cls(shared, publish_notices, most, limit_ms, unrouted=unrouted)
        except BaseException:
            if server is not None:
                server.close()
            raise

    @property
    def is_pooled(self) -> bool:
        """Whether a connection pooler stands in between, which may give each transaction another connection to the server."""
        return self._shared.is_pooled

    @property
    def most(self) -> int:
        """The largest number of connections at once for this user of the pool."""
        return self._most or self._shared.pool.max_size

    def transaction(self) -> AbstractContextManager[OwnConnection]:
        """Begin a transaction; the driver's errors are translated at its begin and commit. A forked process makes its own connections."""
        self._check_open()
        return _Transaction(self._shared, self._limit_ms, role=self._role)

    def transaction_soon(self) -> AbstractContextManager[OwnConnection]:
        """Begin a transaction as `transaction` does, without a long wait for a connection: its caller tries again."""
        self._check_open()
        return _Transaction(self._shared, self._limit_ms, _SOON_S, self._role)

    @contextmanager
    def spare(self) -> Iterator[OwnConnection | None]:
        """Begin a second transaction of a session on a connection that is free now; None: there is none, as behind a pooler."""
        self._check_open()
        if self.is_pooled or not self._shared.has_free():
            yield None
            return
        with ExitStack() as around:
            connection = None
            with suppress(Unavailable):
                connection = around.enter_context(_Transaction(self._shared, self._limit_ms, _SPARE_S, self._role))
            yield connection

    def close(self) -> None:
        """Close the connections; the embedded PostgreSQL stops with its last user. A second call does nothing."""
        self._finalizer()

    def _check_open(self) -> None:
        if not self._finalizer.alive:
            raise UsageError("the message box is closed", remedy="open it again")
        if os.getpid() != self._shared.process:
            with _FORKED:
                if os.getpid() != self._shared.process:
                    # The threads and connections of this pool belong to the other process; this one closes none of them.
                    _OF_OTHERS.append(self._shared)
                    self._finalizer.detach()
                    self._shared = self._shared.here(most=self._most)
                    self._finalizer = weakref.finalize(self, self._shared.give_back, self._most)


class SharedPool:
    """The connection pool of a process for a box; several users share it, and the last user closes it."""

    def __init__(
        self,
        dsn: str,
        place: str,
        identity: Identity,
        *,
        server: EmbeddedServer | None,
        version: BoxVersion,
        most: int,
        limits: Limits,
        is_pooled: bool,
    ) -> None:
        self.dsn, self.place, self.identity = dsn, place, identity
        #: A new pool for `most` connections in this process, which was forked from the process that made this pool.
        self.here = partial(
            SharedPool, dsn, place, identity, server=server, version=version, limits=limits, is_pooled=is_pooled
        )
        reach = Reach(place)
        # Resolved for each new connection, since the embedded server may have to be found again.
        where: str | Callable[[], str] = dsn if server is None else server.found_again
        #: Which of its connections are checked before they are used.
        self.restedness = Restedness()
        # Connections are made on demand, so that opening a box costs one and idle ones are closed.
        self.pool = ConnectionPool[OwnConnection](
            where, connection_class=OwnConnection, kwargs=_settings(dsn) | _limiting(dsn, limits), min_size=0, max_size=most,
            open=True, name=reach.pool_name(), configure=partial(_set_up, identity, reach, is_pooled, limits.reads_only),
            reconnect_timeout=_TRY_S, reconnect_failed=_try_again, max_idle=_IDLE_S,
        )  # fmt: skip
        if limits.wait_s is not None:
            self.pool.timeout = limits.wait_s
        self.is_pooled = is_pooled
        self.process = os.getpid()
        self._server = server
        self._version = version  # it is watched as long as this lives
        self._lock = threading.Lock()
        self._users = 1

    def has_free(self) -> bool:
        """Whether a connection is available without waiting until another user returns one."""
        stats = self.pool.get_stats()
        return stats["pool_available"] > 0 or stats["pool_size"] < stats["pool_max"]

    def lend(self, most: int) -> None:
        with self._lock:
            self._users += 1
            self.pool.resize(0, self.pool.max_size + most)

    def give_back(self, most: int) -> None:
        """Remove a user; the last user closes the pool."""
        forked = os.getpid() != self.process  # in a forked child the threads of the pool are gone
        with self._lock:
            self._users -= 1
            left = self._users
            if left and not forked:
                self.pool.resize(0, max(self.pool.max_size - most, 1))
        if left:
            return
        if not forked:
            self.pool.close()
        if self._server is not None:
            self._server.close()


class _Transaction:
    __slots__ = (
        "_connection", "_interruption", "_limit_ms", "_place", "_pool", "_process", "_restedness", "_role", "_wait_s",
    )  # fmt: skip

    def __init__(
        self, shared: SharedPool, limit_ms: int | None, wait_s: float | None = None, role: str | None = None
    ) -> None:
        self._pool, self._restedness, self._place = shared.pool, shared.restedness, shared.place
        self._limit_ms, self._wait_s, self._role = limit_ms, wait_s, role
        self._process = os.getpid()
        self._interruption = interruption()

    def __enter__(self) -> OwnConnection:
        with translated(self._place):
            while True:
                self._connection = connection = self._pool.getconn(self._wait_s)
                try:
                    self._restedness.check(connection)
                    connection.begin_anew(self._limit_ms, self._role)
                except BaseException as error:
                    connection.close()
                    self._pool.putconn(connection)
                    if not isinstance(error, psycopg.OperationalError):
                        raise
                else:  # after an error the connection is replaced, and a new one has the settings
                    if self._interruption is not None:
                        self._interruption.has(connection)
                    return connection

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        connection = self._connection
        if os.getpid() != self._process:  # it belongs to the other process, which continues with it
            if error is None:
                check_process(self._process)
            return
        if self._interruption is not None:
            self._interruption.has_not(connection)
        connection.given_back()
        try:
            if error is not None:
                if is_out_of_step(error) or is_out_of_step(error.__cause__):
                    connection.close()
                with suppress(psycopg.Error):  # the first error is the one to report
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
            if broken:
                self._restedness.broke()


@contextmanager
def connected_once(dsn: str | None, schema: str) -> Iterator[tuple[psycopg.Connection, str]]:
    """Connect for one transaction, whether the box exists or not; arguments as in `Connections.open`."""
    server, dsn, place = _locate(dsn, checked_schema(schema))
    try:
        with _connected(dsn, place) as connection:
            yield connection, place
    finally:
        if server is not None:
            server.close()


def is_away(dsn: str | None) -> bool:
    """Return whether a PostgreSQL that others run accepts no connection at all; the embedded one never is away."""
    address = dsn if dsn is not None else os.environ.get(VARIABLE)
    if address is None:
        return False
    resolved = resolve(address)
    answer = PGconn.ping(make_conninfo(resolved, **_settings(resolved)).encode())
    return answer in (Ping.REJECT, Ping.NO_RESPONSE)


def kept_connection(dsn: str, place: str) -> psycopg.Connection:
    """Connect outside any pool and any transaction, for locks and listeners that last as long as the connection. Each statement commits."""
    with reached(place, str(conninfo_to_dict(dsn).get("password") or os.environ.get("PGPASSWORD") or "")):
        connection = psycopg.connect(dsn, autocommit=True, **_settings(dsn))
    if has_pooler(connection):
        connection.close()
        raise through_pooler(place)
    with translated(place):
        set_on(connection)
    return connection


def through_pooler(place: str) -> EnvironmentProblem:
    """The error for a connection that has to stay the same, but leads through a connection pooler of unknown mode."""
    return EnvironmentProblem(
        "this needs a connection to PostgreSQL that stays the same, and a connection pooler stands between",
        where=place,
        remedy="use a DSN that leads to PostgreSQL itself; `seriatim docs pgbouncer` says what needs one",
    )


def _locate(dsn: str | None, schema: str) -> tuple[EmbeddedServer | None, str, str]:
    """The PostgreSQL to use: the embedded server, if it is used; the DSN; the place."""
    address = dsn if dsn is not None else os.environ.get(VARIABLE)
    if address is not None:
        resolved = resolve(address)
        return None, resolved, place_of(resolved, schema)
    server = EmbeddedServer(FOLDER)
    return server, server.dsn, f"{FOLDER}, schema {schema}"


@contextmanager
def _connected(dsn: str, place: str) -> Iterator[psycopg.Connection]:
    """Connect for one transaction, outside any pool, so that errors come at once and with their reason."""
    with reached(place, str(conninfo_to_dict(dsn).get("password") or os.environ.get("PGPASSWORD") or "")):
        connection = psycopg.connect(dsn, **_settings(dsn))
    try:
        with translated(place), connection:
            set_for_transactions(connection)
            if pooled := has_pooler(connection):
                connection.prepare_threshold = None
            set_on(connection, local=pooled)
            yield connection
    except SchemaMismatch as error:
        raise SchemaMismatch(error.what, where=error.where or place, remedy=error.remedy) from error.__cause__


def _settings(dsn: str) -> dict[str, Any]:
    parameters = conninfo_to_dict(dsn)
    settings = _SETTINGS | {"application_name": _name_here()} | peer_of(parameters.get("host"))
    return {name: value for name, value in settings.items() if name not in parameters}


def _limiting(dsn: str, limits: Limits) -> dict[str, Any]:
    """The setting of a connection that limits its statements; `RESET ALL` leaves it."""
    if limits.statement_ms is None:
        return {}
    options = str(conninfo_to_dict(dsn).get("options") or "")
    return {"options": f"{options} -c statement_timeout={limits.statement_ms}".strip()}


def _name_here() -> str:
    """Return the name under which connections are known to the server: by it an operator finds the process that holds a group."""
    machine = gethostname().encode("ascii", "replace").decode()
    return f"seriatim {machine[:_LONGEST_MACHINE]}:{os.getpid()}"


def _try_again(pool: ConnectionPool[Any]) -> None:
    """Make the pool try another connection: its waiting users don't ask again."""
    if pool.get_stats().get("requests_waiting"):
        pool.check()


def _turn_limit_ms(limit: float | str | None) -> int | None:
    if limit is None:
        return None
    if not 1 <= (limit_ms := round(micros(limit) / 1000)) <= _LONGEST_TURN_MS:
        raise UsageError(
            f"turn_limit can't be {shown(limit)}", remedy='seconds, or "60s", from a millisecond to 24 days'
        )
    return limit_ms


def _set_up(identity: Identity, reach: Reach, pooled: bool, reads_only: bool, connection: OwnConnection) -> None:
    identity.remember(connection)
    connection.reads_only = reads_only
    set_for_transactions(connection, reads_only=reads_only)
    if pooled:
        connection.be_pooled()
    else:
        set_on(connection)
        connection.commit()
    try:
        identity.look(connection)
        connection.commit()
    except psycopg.Error:  # the user of the connection gets the error of its own statement
        connection.rollback()
    reach.made()


def _check_owner(statements: Statements, place: str) -> None:
    role, owner, is_owner = statements.one("owner", schema=statements.schema)
    if not is_owner:
        raise EnvironmentProblem(
            f"the role {role!r} doesn't own the message box",
            where=place,
            remedy=f"what Spark reads and writes is beyond what grants give: use a DSN of {owner!r}",
        )
