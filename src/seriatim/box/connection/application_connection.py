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

#: A connection that an application has made, for threads or for asyncio.
ApplicationConnection = psycopg.Connection[Any] | psycopg.AsyncConnection[Any]

#: The class of locks of threads.
_LOCK = type(threading.Lock())


class _Joined(psycopg.Connection[Any]):
    """The application's connection without its own cursors and loaders; Django and SQLAlchemy set such. It shares the attributes of the
    original, so both have the same transaction.
    """

    def __init__(self, connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> None:
        self.__dict__ = connection.__dict__

    @property
    def lock(self) -> AbstractContextManager[Any]:  # type: ignore[override]  # the driver's is an attribute
        """The driver's lock, on a connection for threads; on one of asyncio's the caller holds the lock, see `for_threads`."""
        lock = self.__dict__["lock"]
        return lock if isinstance(lock, _LOCK) else nullcontext()

    def __del__(self, *_: Any) -> None:
        """Do nothing: the application's connection stays open."""

    @property
    def adapters(self) -> AdaptersMap:
        return psycopg.adapters

    def cursor(self, *_: Any, binary: bool = False, row_factory: Any = None, **__: Any) -> Any:
        """A standard cursor of the driver, which sends parameters separately from the statement."""
        cursor = psycopg.Cursor(self, row_factory=row_factory or tuple_row)
        cursor.format = Format.BINARY if binary else Format.TEXT
        return cursor


def as_ours(connection: psycopg.Connection[Any]) -> psycopg.Connection[Any]:
    """The application's connection, wrapped for the box's statements."""
    return connection if isinstance(connection, OwnConnection) else _Joined(connection)


def for_threads(
    connection: ApplicationConnection | None,
) -> tuple[psycopg.Connection[Any] | None, AbstractAsyncContextManager[Any]]:
    """Return an application's connection for use in a thread, also one for asyncio; and the lock that the event loop holds meanwhile."""
    if isinstance(connection, psycopg.AsyncConnection):
        return _Joined(connection), connection.lock
    return connection, nullcontext()
