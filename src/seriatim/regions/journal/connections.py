"""The connections of a process to a journal: a few are kept, and transactions that collide are repeated."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import psycopg
from psycopg import abc, errors
from psycopg.pq import TransactionStatus

from seriatim.box.connection.dsn import place_of, resolve
from seriatim.box.connection.observed_connection import ObservedConnection
from seriatim.box.postgres.template import checked_schema
from seriatim.box.postgres.translate import translated
from seriatim.errors import Unavailable, UsageError
from seriatim.regions.journal.statements import JournalStatements
from seriatim.rested import Restedness

_Result = TypeVar("_Result")
#: How often a transaction is repeated that collided with another one.
_TRIES = 20
_LONGEST_PAUSE_S = 0.1
#: A frozen server isn't waited for much longer.
_CANCEL_S = 1.0
#: The errors of a transaction that collided with another one.
COLLISIONS = (errors.SerializationFailure, errors.DeadlockDetected)


class JournalConnection(ObservedConnection):
    """A connection to the journal's database, which waits for an answer for a limited time: a server may be frozen, or cut off."""

    #: The longest wait for an answer, seconds; None: without end, as for statements of a handler.
    patience: float | None = None
    #: How many transactions the handler has begun; more than one, if it ended one by a statement.
    begun: int = 0

    def wait(self, gen: abc.PQGen[Any], *args: Any, **options: Any) -> Any:
        """As the driver's method, for at most `patience`; then the statement is cancelled, and the connection closed."""
        if self.patience is not None and "timeout" not in options:
            options["timeout"] = self.patience
        try:
            return super().wait(gen, *args, **options)
        except errors._WaitTimeout:  # noqa: SLF001 -- the driver says so that `timeout` raises it
            with suppress(psycopg.Error):  # the server would go on, and a commit that was sent along would follow
                self.cancel_safe(timeout=_CANCEL_S)
            self.pgconn.finish()
            raise psycopg.OperationalError(f"the server hasn't answered for {self.patience:g} s") from None

    def _start_query(self) -> abc.PQGen[None]:
        self.begun += self.is_idle
        yield from super()._start_query()

    @property
    def is_idle(self) -> bool:
        return self.pgconn.transaction_status == TransactionStatus.IDLE

    @property
    def has_ended(self) -> bool:
        """Return whether the handler has ended its transaction by a statement, so that the completion can't commit with its writes."""
        return self.begun > 1 or (self.begun == 1 and self.is_idle)

    @contextmanager
    def transaction(self, *args: Any, **options: Any) -> Iterator[psycopg.Transaction]:
        """Begin a transaction like the driver's method; for a handler it is always a savepoint, which doesn't commit."""
        if self.is_lent and self.is_idle:
            self.execute("SELECT 1")
        with super().transaction(*args, **options) as transaction:
            yield transaction

    @property
    def is_as_made(self) -> bool:
        """Whether no handler has set anything on it that would hold for the next transactions."""
        begins = self.isolation_level, self.read_only, self.deferrable
        return not (self.is_changed or self.autocommit) and begins == (None, None, None)

    def set_autocommit(self, value: bool) -> None:
        if value:
            self._check_own("commit each statement of")
        super().set_autocommit(value)

    def tpc_begin(self, xid: Any) -> None:
        self._check_own("commit in two phases")
        super().tpc_begin(xid)

    def commit(self) -> None:
        self._check_own("commit")
        if not self.is_idle:
            super().commit()

    def rollback(self) -> None:
        self._check_own("roll back")
        super().rollback()

    def _check_own(self, verb: str) -> None:
        if self.is_lent:
            raise UsageError(
                f"a handler can't {verb} the transaction of its message",
                remedy="return, or raise an error; for a part that may fail: with tx.connection.transaction(): …",
            )


class Connections:
    """Connections to one journal; threads share them."""

    def __init__(self, dsn: str, schema: str, most: int, patience: float) -> None:
        self._dsn = resolve(dsn)
        self.schema = checked_schema(schema)
        self.place = place_of(self._dsn, schema)
        #: The longest wait for a connection, and for an answer to one of the journal's own statements, seconds.
        self.patience = patience
        self._room = threading.Semaphore(most)
        self._lock = threading.Lock()
        self._idle: list[JournalConnection] = []
        self._is_closed = False
        self._restedness = Restedness()
        self._made_in = os.getpid()

    def again(self, work: Callable[[JournalStatements], _Result]) -> _Result:
        """Do work in a separate transaction, and commit; repeat all of it after a collision with another transaction."""
        for attempt in range(_TRIES):
            try:
                with self.transaction(is_repeated=attempt < _TRIES - 1) as statements:
                    return work(statements)
            except COLLISIONS:
                # Transactions that collided begin again at different moments.
                threading.Event().wait(random.random() * min(_LONGEST_PAUSE_S, 0.001 * 2**attempt))  # noqa: S311
        raise AssertionError  # the last attempt's collision is an `Unavailable`

    @contextmanager
    def transaction(self, *, is_repeated: bool = False) -> Iterator[JournalStatements]:
        """One transaction: it commits at the end of the block; an exception rolls it back."""
        connection = self._taken()
        connection.patience = self.patience
        try:
            try:
                yield JournalStatements(connection, self.schema)
                connection.commit()
            except COLLISIONS:
                if is_repeated:
                    raise
                with translated(self.place):
                    raise
            except psycopg.Error:
                with translated(self.place):
                    raise
        finally:
            self._given_back(connection)

    def fit(self, more: int) -> None:
        """Allow more open connections, or fewer."""
        for _ in range(more):
            self._room.release()
        for _ in range(-more):  # connections of stuck threads don't return
            self._room.acquire(blocking=False)

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _taken(self) -> JournalConnection:
        if self._is_closed:
            raise UsageError("the journal is closed", where=self.place, remedy="open it again")
        if not self._room.acquire(timeout=self.patience):
            raise Unavailable(
                "all connections to the journal are in use", where=self.place, remedy="open it with more connections"
            )
        try:
            with self._lock:
                if self._made_in != os.getpid():  # a forked process leaves the connections of its parent
                    self._made_in, self._idle = os.getpid(), []
                connection = self._idle.pop() if self._idle else None
            if connection is not None and self._is_there(connection):
                return connection
            return self._connected()
        except BaseException:
            self._room.release()
            raise

    def _is_there(self, connection: JournalConnection) -> bool:
        """Check a connection that was idle; if it is lost, close all that haven't been used since."""
        try:
            self._restedness.check(connection, self.patience / 3)
        except psycopg.Error:
            with self._lock:
                idle, self._idle = self._idle, []
            for idle_one in idle:
                idle_one.close()
            return False
        return True

    def _connected(self) -> JournalConnection:
        try:
            return JournalConnection.connect(
                self._dsn, connect_timeout=max(2, round(self.patience)), application_name="seriatim journal",
                keepalives_idle=10, keepalives_interval=5, keepalives_count=3, tcp_user_timeout=30_000,
            )  # fmt: skip
        except psycopg.Error as error:
            raise Unavailable(
                f"the journal can't be reached: {error}", where=self.place, remedy="repeat it once the server is back"
            ) from None

    def _given_back(self, connection: JournalConnection) -> None:
        connection.take_back()
        connection.patience, connection.used_at = self.patience, time.monotonic()
        try:
            if not connection.closed and not connection.is_idle:
                with suppress(psycopg.Error):
                    connection.rollback()
            with self._lock:
                if not (self._is_closed or connection.closed) and connection.is_as_made:
                    self._idle.append(connection)
                    return
                idle: list[JournalConnection] = []
                if connection.closed:  # the others were opened to the same server, which is gone or was restarted
                    idle, self._idle = self._idle, idle
            for connection_ in (connection, *idle):
                connection_.close()
        finally:
            self._room.release()
