"""A connection of the application's, as the box uses it: with the driver's own cursors and ways to read values.

And what was received on a connection, which all sessions on it have in common: locks are the connection's.
"""

from __future__ import annotations

from typing import Any, cast

import psycopg
from psycopg.adapt import AdaptersMap
from psycopg.pq import Format
from psycopg.rows import tuple_row

from seriatim.box.delivery import Delivery
from seriatim.box.round_trip import OwnConnection

__all__ = ["as_ours", "held_on", "hold"]

#: The name by which a connection of an application's keeps what was received on it last, by the schemas of the boxes.
_IN_HAND = "_seriatim_in_hand"


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


def held_on(connection: psycopg.Connection[Any], schema: str) -> Delivery | None:
    """What was received last in the transaction of a connection, by whichever session."""
    if isinstance(connection, OwnConnection):  # it knows also what a rollback has made of it
        return cast("Delivery | None", connection.in_hand)
    return cast("Delivery | None", vars(connection).get(_IN_HAND, {}).get(schema))


def hold(connection: psycopg.Connection[Any], schema: str, delivery: Delivery | None) -> None:
    """Let all sessions on a connection know what was received."""
    if isinstance(connection, OwnConnection):
        connection.in_hand = delivery
    else:
        vars(connection).setdefault(_IN_HAND, {})[schema] = delivery
