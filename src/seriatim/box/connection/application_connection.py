"""An application's connection for the box's statements: with the driver's standard cursors and value readers."""

from __future__ import annotations

import threading
from contextlib import AbstractAsyncContextManager, AbstractContextManager, nullcontext
from typing import Any

import psycopg
from psycopg.adapt import AdaptersMap
from psycopg.pq import Format
from psycopg.rows import tuple_row

from seriatim.box.connection.round_trip import OwnConnection

__all__ = ["ApplicationConnection", "as_ours", "for_threads"]

#: A connection that an application has made, for threads or for asyncio.
ApplicationConnection = psycopg.Connection[Any] | psycopg.AsyncConnection[Any]


#: The class of locks of threads.
_LOCK = type(threading.Lock())


class _Joined(psycopg.Connection[Any]):
    """The same connection, in the same state, whatever cursors and loaders it was given: Django and SQLAlchemy give some.

    It has the other one's attributes, not copies of them: what is begun here is begun there.
    """

    def __init__(self, connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> None:
        self.__dict__ = connection.__dict__

    @property
    def lock(self) -> AbstractContextManager[Any]:  # type: ignore[override]  # the driver's is an attribute
        """The driver's, where that is for threads; one of asyncio's is held by the caller, see `for_threads`."""
        lock = self.__dict__["lock"]
        return lock if isinstance(lock, _LOCK) else nullcontext()

    def __del__(self, *_: Any) -> None:
        """Nothing: the application's connection goes on."""

    @property
    def adapters(self) -> AdaptersMap:
        """The driver's."""
        return psycopg.adapters

    def cursor(self, *_: Any, binary: bool = False, row_factory: Any = None, **__: Any) -> Any:
        """A cursor of the driver's, which sends parameters apart from the statement."""
        cursor = psycopg.Cursor(self, row_factory=row_factory or tuple_row)
        cursor.format = Format.BINARY if binary else Format.TEXT
        return cursor


def as_ours(connection: psycopg.Connection[Any]) -> psycopg.Connection[Any]:
    """The connection for statements of the box."""
    return connection if isinstance(connection, OwnConnection) else _Joined(connection)


def for_threads(
    connection: ApplicationConnection | None,
) -> tuple[psycopg.Connection[Any] | None, AbstractAsyncContextManager[Any]]:
    """An application's connection as a thread uses it, also one for asyncio; and what the event loop holds meanwhile."""
    if isinstance(connection, psycopg.AsyncConnection):
        return _Joined(connection), connection.lock
    return connection, nullcontext()
