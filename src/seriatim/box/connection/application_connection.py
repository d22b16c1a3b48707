"""An application's connection for the box's statements, with the driver's standard cursors and value readers; `join` finds that of a
transaction of SQLAlchemy, which isn't imported for it.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Coroutine
from contextlib import AbstractAsyncContextManager, AbstractContextManager, nullcontext
from typing import Any, Protocol, overload

import psycopg
from psycopg.adapt import AdaptersMap
from psycopg.pq import Format
from psycopg.rows import tuple_row

from seriatim.box.connection.round_trip import OwnConnection
from seriatim.errors import UsageError

#: A connection that an application has made, for threads or for asyncio.
ApplicationConnection = psycopg.Connection[Any] | psycopg.AsyncConnection[Any]

#: The class of locks of threads.
_LOCK = type(threading.Lock())


class _Joined(psycopg.Connection[Any]):
    """The application's connection, in the same transaction, without the cursors and loaders that Django and SQLAlchemy set."""

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
    return connection if isinstance(connection, OwnConnection) else _Joined(connection)


def for_threads(
    connection: ApplicationConnection | None,
) -> tuple[psycopg.Connection[Any] | None, AbstractAsyncContextManager[Any]]:
    """Return an application's connection for use in a thread, also one for asyncio; and the lock that the event loop holds meanwhile."""
    if isinstance(connection, psycopg.AsyncConnection):
        return _Joined(connection), connection.lock
    return connection, nullcontext()


class _Asynchronous(Protocol):
    async def rollback(self) -> None: ...


class _Plain(Protocol):
    def rollback(self) -> None: ...


@overload
def join(session: _Asynchronous) -> Coroutine[Any, Any, psycopg.AsyncConnection[Any]]: ...
@overload
def join(session: _Plain) -> psycopg.Connection[Any]: ...
def join(session: Any) -> Any:
    """The psycopg connection of a SQLAlchemy session, in whose transaction a session of the box takes part.

    ``with box.session(sq.join(session)) as tx``, with asyncio ``async with box.session(await sq.join(session)) as tx``. The session is
    flushed first, so that a row that can't be written fails before its message is published. SQLAlchemy commits or rolls back.

    Args:
        session: a ``Session``, a ``Connection``, an ``AsyncSession``, an ``AsyncConnection``, or a scoped session of either kind, of an
            engine of ``postgresql+psycopg://``.

    Raises:
        UsageError: it is none of these, or its driver isn't psycopg.
    """
    if inspect.iscoroutinefunction(getattr(session, "rollback", None)):
        return _joined(session)
    if not hasattr(session, "connection"):
        raise UsageError(
            f"{type(session).__name__} can't be joined",
            remedy="give a Session or Connection of SQLAlchemy, or its counterpart for asyncio; psycopg's connections go to "
            "box.session directly",
        )
    if callable(session.connection):
        session.flush()
        session = session.connection()
    elif not session.in_transaction():  # as SQLAlchemy does before a statement: otherwise it wouldn't commit
        session.begin()
    return _of_psycopg(session.connection.driver_connection, psycopg.Connection)


async def _joined(session: Any) -> ApplicationConnection:
    if hasattr(session, "flush"):
        await session.flush()
        session = await session.connection()
    elif not session.in_transaction():
        await session.begin()
    return _of_psycopg((await session.get_raw_connection()).driver_connection, psycopg.AsyncConnection)


def _of_psycopg(connection: object, kind: type[ApplicationConnection]) -> ApplicationConnection:
    if not isinstance(connection, kind):
        raise UsageError(
            f"the driver of this engine is {type(connection).__module__.partition('.')[0]}",
            remedy="create_engine('postgresql+psycopg://…'): a box takes part in transactions of psycopg",
        )
    return connection
