"""Waiting for a message without a transaction: whoever brings one calls, at its commit, as many as there are messages.

Behind a connection pooler nobody can be called: there it is looked again and again.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import sql
from psycopg.rows import tuple_row

from seriatim.box.round_trip import OwnConnection
from seriatim.box.statements import statement
from seriatim.errors import UsageError, shown
from seriatim.kernel.time import micros, seconds

__all__ = ["Waiter", "patience"]

#: A call may be missed where a message and a waiter cross each other; a look that often finds it.
_LOOK_S = 1.0


class Waiter:
    """A connection that waits for messages of a queue; it is in no transaction meanwhile.

    Args:
        connection: of ours; nothing is begun on it.
        schema: the schema of the box.
        queue_id: the queue.
    """

    def __init__(self, connection: psycopg.Connection, schema: str, queue_id: int) -> None:
        self._connection = connection
        self._schema = schema
        self._queue_id = queue_id
        self._channel = f"seriatim_{connection.info.backend_pid}"
        self._is_deaf = isinstance(connection, OwnConnection) and connection.is_pooled
        self._waiter: int | None = None
        #: By what it was called last: its own number, and that of the newest waiter then.
        self._call: tuple[int | None, int] = None, 0

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Around all waiting: what is called is heard. After an error nothing is left of it, and the error is what is raised."""
        if self._is_deaf:
            yield
            return
        self._connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self._channel)))
        self._connection.commit()
        try:
            yield
            self._leave()
        except BaseException:
            self._give_up()
            raise

    def register(self) -> None:
        """Ask to be called. Whoever looks for messages after this and finds none can wait."""
        if self._waiter is None and not self._is_deaf:
            with self._connection.cursor(row_factory=tuple_row) as cursor:
                parameters = {"queue_id": self._queue_id, "channel": self._channel}
                (self._waiter,) = cursor.execute(statement("register", self._schema), parameters).fetchall()[0]
            self._connection.commit()

    def wait(self, timeout_s: float) -> bool:
        """Wait until somebody calls, a timer of the queue is due, or so many seconds are over.

        Returns:
            whether somebody called.
        """
        with self._connection.cursor(row_factory=tuple_row) as cursor:
            (due_s,) = cursor.execute(statement("next_due", self._schema), {"queue_id": self._queue_id}).fetchall()[0]
        self._connection.commit()
        soon = min(timeout_s, _LOOK_S, _LOOK_S if due_s is None else max(due_s, 0.0))
        if self._is_deaf:
            time.sleep(soon)
            return False
        for call in self._connection.notifies(timeout=soon, stop_after=1):
            self._call = self._waiter, int(call.payload or 0)  # whoever calls everybody names none
            self._waiter = None
        return self._waiter is None

    def pass_on(self) -> None:
        """Have the next one called in place of this one, who was called and has no use for what came."""
        waiter, newest = self._call
        parameters = {"queue_id": self._queue_id, "waiter_id": waiter, "newest": newest}
        self._connection.execute(statement("pass_on", self._schema), parameters)

    def _leave(self) -> None:
        self._connection.execute(sql.SQL("UNLISTEN {}").format(sql.Identifier(self._channel)))
        if self._waiter is not None:
            self._connection.execute(statement("unregister", self._schema), {"waiter_id": self._waiter})

    def _give_up(self) -> None:
        """Leave after an error, in another transaction: that of the error takes no statement any more."""
        try:
            self._connection.rollback()
            self._leave()
            self._connection.commit()
        except psycopg.Error:  # somebody else would get it, and hear calls that are not for him
            self._connection.close()


def patience(wait: float | str) -> float:
    """How many seconds to wait.

    Raises:
        UsageError: it isn't a duration.
    """
    if (wait_us := micros(wait)) < 0:
        raise UsageError(f"cannot wait for {shown(wait)} seconds", remedy="0 or more")
    return seconds(wait_us)
