"""The connections of a process to a journal: a few that are kept, and transactions that are repeated where they collided."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

import psycopg
from psycopg import errors
from psycopg.pq import TransactionStatus

from seriatim.box.connection.dsn import place_of, resolve
from seriatim.box.postgres.statements import checked_schema
from seriatim.box.postgres.translate import translated
from seriatim.errors import Unavailable, UsageError
from seriatim.regions.journal.statements import Statements

__all__ = ["Connections"]

_Result = TypeVar("_Result")
#: So often a transaction is repeated that collided with another one.
_TRIES = 20
_LONGEST_PAUSE_S = 0.1
_COLLISIONS = (errors.SerializationFailure, errors.DeadlockDetected)


class Connections:
    """Connections to one journal; threads share them.

    Args:
        dsn: the database.
        schema: the journal's schema.
        most: how many are open at once, at most.
        patience: seconds for which a connection is waited for.

    Raises:
        UsageError: the DSN isn't one, or names a variable that isn't set.
        EnvironmentProblem: the file of the DSN can't be read.
    """

    def __init__(self, dsn: str, schema: str, most: int, patience: float) -> None:
        self._dsn = resolve(dsn)
        self.schema = checked_schema(schema)
        self.place = place_of(self._dsn, schema)
        self._patience = patience
        self._room = threading.BoundedSemaphore(most)
        self._lock = threading.Lock()
        self._idle: list[psycopg.Connection] = []
        self._is_closed = False
        self._made_in = os.getpid()

    def again(self, work: Callable[[Statements], _Result]) -> _Result:
        """Do work in a transaction of its own, and commit; the whole of it again where it collided with another.

        Raises:
            Unavailable: the journal can't be reached, or the transaction collided too often.
        """
        for attempt in range(_TRIES):
            try:
                with self.transaction(is_repeated=attempt < _TRIES - 1) as statements:
                    return work(statements)
            except _COLLISIONS:
                # Transactions that collided begin again at different moments.
                threading.Event().wait(random.random() * min(_LONGEST_PAUSE_S, 0.001 * 2**attempt))  # noqa: S311
        raise AssertionError  # the last attempt's collision is an `Unavailable`

    @contextmanager
    def transaction(self, *, is_repeated: bool = False) -> Iterator[Statements]:
        """One transaction: it commits at the end of the block; an exception rolls it back.

        Args:
            is_repeated: a collision is raised as the driver's error, for somebody who repeats the transaction.
        """
        connection = self._taken()
        try:
            try:
                yield Statements(connection, self.schema)
                connection.commit()
            except _COLLISIONS:
                if is_repeated:
                    raise
                with translated(self.place):
                    raise
            except psycopg.Error:
                with translated(self.place):
                    raise
        finally:
            self._given_back(connection)

    def close(self) -> None:
        """Close the connections."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for one in idle:
            one.close()

    def _taken(self) -> psycopg.Connection:
        if self._is_closed:
            raise UsageError("the journal is closed", where=self.place, remedy="open it again")
        if not self._room.acquire(timeout=self._patience):
            raise Unavailable(
                "all connections to the journal are in use", where=self.place, remedy="open it with more connections"
            )
        try:
            with self._lock:
                if self._made_in != os.getpid():  # those of the process that this one was forked from are its own
                    self._made_in, self._idle = os.getpid(), []
                found = self._idle.pop() if self._idle else None
            return self._connected() if found is None else found
        except BaseException:
            self._room.release()
            raise

    def _connected(self) -> psycopg.Connection:
        try:
            return psycopg.connect(
                self._dsn, connect_timeout=max(2, round(self._patience)), application_name="seriatim journal",
                keepalives_idle=10, keepalives_interval=5, keepalives_count=3,
            )  # fmt: skip
        except psycopg.Error as error:
            raise Unavailable(
                f"the journal can't be reached: {error}", where=self.place, remedy="repeat it once the server is back"
            ) from None

    def _given_back(self, connection: psycopg.Connection) -> None:
        try:
            if not connection.closed and connection.info.transaction_status != TransactionStatus.IDLE:
                with suppress(psycopg.Error):
                    connection.rollback()
            with self._lock:
                if not self._is_closed and not connection.closed:
                    self._idle.append(connection)
                    return
                # The others were opened to the same server, which has gone or restarted.
                gone, self._idle = self._idle, []
            for one in (connection, *gone):
                one.close()
        finally:
            self._room.release()
