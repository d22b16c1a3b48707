"""`join`: the psycopg connection of a transaction that SQLAlchemy began, for a session of a box. SQLAlchemy isn't imported for it."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Protocol, overload

import psycopg

from seriatim.box.connection.application_connection import ApplicationConnection
from seriatim.errors import UsageError


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
        session: a ``Session``, a ``Connection``, an ``AsyncSession`` or an ``AsyncConnection``, of an engine of ``postgresql+psycopg://``.

    Raises:
        UsageError: it is none of these, or its driver isn't psycopg.
    """
    if hasattr(session, "run_sync"):
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
    if hasattr(session, "sync_session"):
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
