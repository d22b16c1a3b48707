"""Listen for messages of several queues at once, on one connection: for all waiting coroutines of a process, of any role.

PostgreSQL says that somebody called, not for which queue. Behind a connection pooler notifications don't work.
"""

from __future__ import annotations

import select
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

import psycopg
from psycopg import sql

from seriatim.box.connection.access import Transaction
from seriatim.box.connection.round_trip import OwnConnection


class Listener:
    """A connection that waits for messages of queues; it is in no transaction meanwhile."""

    def __init__(self, transaction: Transaction) -> None:
        #: On a connection of ours; nothing is begun on it.
        self._transaction = transaction
        self._channel = f"seriatim_{transaction.connection.info.backend_pid}"
        self._is_deaf = isinstance(transaction.connection, OwnConnection) and transaction.connection.is_pooled
        #: The number of the waiter of each role and queue, as it was registered last.
        self._waiters: dict[tuple[str | None, int], int] = {}

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Listen while the block runs. After an error no registration is left, and the error is raised."""
        if self._is_deaf:
            yield
            return
        self._execute("LISTEN {}")
        try:
            yield
            self._leave()
        except BaseException:
            self._give_up()
            raise

    def ask(self, queues: Collection[tuple[str | None, int]], *, anew: bool) -> float | None:
        """Listen for these queues only, each as the role that receives; return the seconds until the next timer. Then look, and wait."""
        roles = {role for role, _ in (*queues, *self._waiters)}
        dues = [self._ask(role, [queue for of, queue in queues if of == role], anew=anew) for role in roles]
        return min((due_s for due_s in dues if due_s is not None), default=None)

    def _ask(self, role: str | None, queue_ids: Sequence[int], *, anew: bool) -> float | None:
        connection, known = self._transaction.connection, self._waiters
        left = [queue for of, queue in known if of == role and queue not in queue_ids]
        asks = [not self._is_deaf and (anew or (role, queue) not in known) for queue in queue_ids]
        if isinstance(connection, OwnConnection):
            connection.role = role
        rows = self._transaction.rows(
            "ask_to_be_called",
            queue_ids=[*queue_ids, *(0 for _ in left)],
            waiters=[
                *(known.get((role, queue), 0) if is_asked else 0 for queue, is_asked in zip(queue_ids, asks, strict=True)),
                *(known.pop((role, queue)) for queue in left),
            ],
            asks=[*asks, *(False for _ in left)],
        )  # fmt: skip
        connection.commit()
        self._waiters |= {
            (role, queue): row.waiter for queue, row in zip(queue_ids, rows, strict=False) if row.waiter is not None
        }
        return min((row.due_s for row in rows if row.due_s is not None), default=None)

    def wait(self, timeout_s: float, wake: int) -> bool:
        """Wait for a notification, for the file `wake` to become readable, or for a number of seconds."""
        if self._is_called():
            return True
        polling = select.poll()
        polling.register(wake, select.POLLIN)
        if not self._is_deaf:
            polling.register(self._transaction.connection.fileno(), select.POLLIN)
        polling.poll(max(timeout_s, 0.0) * 1000)
        return self._is_called()

    def _is_called(self) -> bool:
        return not self._is_deaf and bool(list(self._transaction.connection.notifies(timeout=0)))

    def _execute(self, words: str) -> None:
        self._transaction.connection.execute(sql.SQL(words).format(sql.Identifier(self._channel)))
        self._transaction.connection.commit()

    def _leave(self) -> None:
        self.ask((), anew=False)
        self._execute("UNLISTEN {}")

    def _give_up(self) -> None:
        """Unregister after an error, in another transaction: the failed one accepts no statement any more."""
        try:
            self._transaction.connection.rollback()
            self._leave()
        except psycopg.Error:  # otherwise the connection's next user would get its notifications
            self._transaction.connection.close()
