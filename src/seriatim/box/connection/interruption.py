"""Interrupt a call from another thread: the statement under way is cancelled, and no further one is sent in that call.

A call that has no connection yet is interrupted by its first statement. Only calls that are made in `Interruption.calling`
can be interrupted; for others nothing is noted.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from contextvars import ContextVar

import psycopg

from seriatim.box.connection.round_trip import OwnConnection

#: A server that doesn't answer isn't waited for: its statement ends with the connection.
_CANCEL_S = 2.0
_CURRENT: ContextVar[Interruption | None] = ContextVar("seriatim_interruption", default=None)


def interruption() -> Interruption | None:
    return _CURRENT.get()


class Interruption:
    """Interrupts the calls of one session, or one call of a box; one call at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connections: list[psycopg.Connection] = []
        #: The call that is under way.
        self._call: object = None
        self._is_asked = False

    @property
    def is_asked(self) -> bool:
        """Whether the call that is under way shall end."""
        return self._is_asked

    @contextmanager
    def calling(self, call: object) -> Iterator[None]:
        """Run a call that `ask` may interrupt by its name; later calls continue."""
        token = _CURRENT.set(self)
        self._call = call
        try:
            yield
        finally:
            _CURRENT.reset(token)
            with self._lock:
                self._call, self._is_asked = None, False
                self._mark()

    def has(self, connection: psycopg.Connection) -> None:
        with self._lock:
            self._connections.append(connection)
            if isinstance(connection, OwnConnection):
                connection.interrupting = self._lock
            self._mark()

    def has_not(self, connection: psycopg.Connection) -> None:
        with self._lock:
            self._connections = [other for other in self._connections if other is not connection]
            if isinstance(connection, OwnConnection):
                connection.is_interrupted = False
                connection.interrupting = nullcontext()

    def ask(self, call: object) -> None:
        """Interrupt a call, from another thread; nothing is done where it isn't under way."""
        with self._lock:  # the call ends, and another begins, when this has been sent
            if self._call is not call:
                return
            self._is_asked = True
            self._mark()
            for connection in self._connections:
                with suppress(psycopg.Error):
                    connection.cancel_safe(timeout=_CANCEL_S)

    def _mark(self) -> None:
        for connection in self._connections:
            if isinstance(connection, OwnConnection):
                connection.is_interrupted = self._is_asked
