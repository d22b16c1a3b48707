"""Wait for messages without a transaction: a publisher's commit notifies as many receivers as it has messages.

Behind a connection pooler notifications don't work, so a receiver looks again and again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import psycopg

from seriatim.box.connection.access import Transaction
from seriatim.box.connection.round_trip import commit_alone, commit_with
from seriatim.box.postgres.statements import statement

if TYPE_CHECKING:
    from seriatim.box.connection.round_trip import OwnConnection

#: A notification may be missed where a message and a waiter cross each other; a look at this interval finds it, seconds.
_LOOK_S = 1.0
#: The longest time until a wait notices that it shall end, seconds.
_NOTICE_END_S = 0.1
#: A group whose timer is due, and that isn't handed out, is locked by another process; it is checked again after this pause, seconds.
_SHORT_S = 0.05


class Waiter:
    """A connection that waits for messages of a queue, outside a transaction."""

    def __init__(self, transaction: Transaction, queue_id: int, ends: Callable[[], bool]) -> None:
        self._transaction = transaction
        self._connection = cast(
            "OwnConnection", transaction.connection
        )  # receivers don't wait in a transaction of the caller's
        #: Returns whether a wait shall end; called again and again during a wait.
        self._ends = ends
        self._queue_id = queue_id
        self._channel = f"seriatim_{self._connection.info.backend_pid}"
        #: Whether it is behind a connection pooler, where notifications don't arrive.
        self._is_deaf = self._connection.begins_with_settings
        self._is_listening = False
        #: The number under which it is registered for a notification; None: it isn't, or was notified.
        self._waiter: int | None = None
        #: The last notification: the number of this waiter, and the number of the newest waiter at that time.
        self._call: tuple[int | None, int] = None, 0

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Wait while the block runs. Afterwards no registration is left, also after an error, which is raised."""
        try:
            yield
            self._leave()
        except BaseException:
            self._give_up()
            raise

    def ask(self) -> None:
        """Commit, and register for a notification, unless it is registered. Look for messages once more after this, before `wait`: then no
        message can come unnoticed.
        """
        if self._is_deaf or self._waiter is not None:
            self._transaction.commit()
            return
        self._is_listening = True  # also where the exchange is interrupted
        self._waiter = self._commit_with("register", ahead=b"LISTEN " + self._channel.encode(), chain=True)

    def wait(self, timeout_s: float) -> bool:
        """Commit, and wait until a publisher notifies, a timer of the queue is due, the seconds are over, or the wait shall end."""
        if self._is_deaf:
            due_s = self._transaction.value("next_due", of_queue=self._queue_id)
            self._transaction.commit()
        else:
            due_s = self._commit_with("next_due")
        soon = min(timeout_s, _LOOK_S, _LOOK_S if due_s is None else due_s if due_s > 0 else _SHORT_S)
        until = time.monotonic() + soon
        while not self._ends():
            left_s = max(until - time.monotonic(), 0.0)
            if self._hears(min(left_s, _NOTICE_END_S)) or left_s <= _NOTICE_END_S:
                break
        if not self._is_called:
            return False
        commit_alone(self._connection, b"UNLISTEN " + self._channel.encode())
        self._is_listening = False
        return True

    def _commit_with(self, name: str, **options: Any) -> Any:
        """Execute a statement about the queue, and commit, in one round trip; return its value."""
        self._transaction.publish_notices()
        request = statement(name, self._transaction.schema, "of_queue"), {"of_queue": self._queue_id}
        return commit_with(self._connection, request, **options)

    @property
    def _is_called(self) -> bool:
        return self._waiter is None and not self._is_deaf

    def _hears(self, timeout_s: float) -> bool:
        """Listen for a number of seconds; return whether a publisher has notified."""
        if self._is_deaf:
            time.sleep(timeout_s)
            return False
        for call in self._connection.notifies(timeout=timeout_s, stop_after=1):
            if call.channel != self._channel or self._waiter is None:
                continue  # an application's, or the second of two calls
            newest = int(call.payload or 0)  # a call to every receiver names no waiter
            if not newest or newest >= self._waiter:  # otherwise it was for an earlier waiter on this connection
                self._call, self._waiter = (self._waiter, newest), None
        return self._is_called

    def pass_on(self) -> None:
        """Notify the next receiver in place of this one, which was notified and doesn't take the message."""
        waiter, newest = self._call
        self._transaction.do("pass_on", of_queue=self._queue_id, waiter=waiter, newest=newest)

    def _leave(self) -> None:
        if self._is_listening:
            self._connection.execute(b"UNLISTEN " + self._channel.encode())
            self._is_listening = False
        if self._waiter is not None:
            self._transaction.do("unregister", waiter=self._waiter)
            self._waiter = None

    def _give_up(self) -> None:
        """Unregister after an error, in another transaction: the failed transaction accepts no statement any more."""
        try:
            self._connection.rollback()
            self._leave()
            self._connection.commit()
        except psycopg.Error:  # otherwise the connection's next user would get its notifications
            self._connection.close()
