"""The identity of a box: check that a connection leads to the same box, not to one of the same name elsewhere.

The identity is the server, the database and the schema, by PostgreSQL's numbers for them. A copy of a database has
everything that a box stores, so stored values can't identify it; neither can a host name, since a server may have
several.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import psycopg

from seriatim.box.connection.dsn import place_of
from seriatim.box.connection.settings import check_values
from seriatim.box.postgres.statements import Statements
from seriatim.errors import UsageError

__all__ = ["Identity", "identity_of"]

#: The name by which a connection keeps, by their schemas, the boxes that it leads to.
_KEPT = "_seriatim_boxes"


class Identity:
    """The identity of the box that a process has opened. Threads may share it.

    Args:
        schema: its schema.
        place: host, database and schema, for errors.
        known: the result of `identity_of`.
    """

    def __init__(self, schema: str, place: str, known: str | None) -> None:
        self.schema = schema
        self._place = place
        self._known = known

    def remember(self, connection: psycopg.Connection) -> None:
        """Note that a connection leads to this box, so that it needn't be checked."""
        vars(connection).setdefault(_KEPT, {})[self.schema] = self._known

    def check(
        self, connection: psycopg.Connection, own: Callable[[], AbstractContextManager[psycopg.Connection]]
    ) -> None:
        """Check that a connection leads to this box; each connection is checked once.

        Args:
            connection: a connection of the application, or of another box.
            own: a transaction on a connection of this box.

        Raises:
            UsageError: it leads elsewhere, or its settings would change values.
        """
        kept = vars(connection).get(_KEPT, {})
        if self.schema in kept and kept[self.schema] == self._known:
            return
        found, settings = _asked(connection, self.schema)
        if found != self._known:
            with own() as ours:  # the box may have moved since it was opened, to a newer PostgreSQL
                self._known = identity_of(ours, self.schema)
        if found != self._known:
            there = place_of(connection.info.dsn, self.schema)
            raise UsageError(
                f"the connection leads to another message box, or to none: {there}",
                where=self._place,
                remedy="give a connection to the database of the box, or open the box that is there",
            )
        check_values(*settings)
        self.remember(connection)


def identity_of(connection: psycopg.Connection, schema: str) -> str | None:
    """The identity of the box in a schema, as text; None if there is no such schema. Every role may call it."""
    return _asked(connection, schema)[0]


def _asked(connection: psycopg.Connection, schema: str) -> tuple[str | None, tuple[str, str, int]]:
    """The identity of the box, and the settings that `check_values` reads, in its order."""
    identity, nulls, equals, digits = Statements(connection, schema).one("identity", schema=schema)
    return None if identity is None else str(identity), (nulls, equals, digits)
