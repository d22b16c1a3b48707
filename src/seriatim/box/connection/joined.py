"""An application's connection for the box's statements: with the driver's standard cursors and value readers."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg.adapt import AdaptersMap
from psycopg.pq import Format
from psycopg.rows import tuple_row

from seriatim.box.connection.round_trip import OwnConnection

__all__ = ["as_ours"]


class _Joined(psycopg.Connection[Any]):
    """The same connection, in the same state, whatever cursors and loaders it was given: Django and SQLAlchemy give some.

    It has the other one's attributes, not copies of them: what is begun here is begun there.
    """

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.__dict__ = connection.__dict__

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
