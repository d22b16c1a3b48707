"""The identity of a box: check that a connection leads to the same box, and that the box is where it belongs.

A connection leads to the same box if the server, the database and the schema are the same. A copy of a database has
everything that a box stores, so stored values can't tell that; neither can a host name, since a server may have several.

A box has an id, and remembers its server. On another server it is disabled until an operator has said whether it was moved
or is a copy: reading works, and `Identity.check_enabled` refuses the rest. That is looked at once for each connection.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from uuid import UUID

import psycopg

from seriatim.box.connection.dsn import place_of
from seriatim.box.connection.round_trip import OwnConnection, is_idle
from seriatim.box.connection.settings import check_values, is_standby, set_for_transactions
from seriatim.box.postgres.statements import Statements
from seriatim.errors import BoxDisabled, EnvironmentProblem, UsageError

#: The remedy for a disabled box; the functions of the schema have the same text.
HOW_TO_ENABLE = (
    "if it was moved here, or the server upgraded: seriatim box enable; if this is a copy: seriatim box new-id"
)
#: The attribute by which a connection keeps, by schema, the boxes that it leads to.
_KEPT = "_seriatim_boxes"
#: The attribute by which a connection keeps the schemas of boxes that were found enabled on it.
_ENABLED = "_seriatim_enabled"


class Identity:
    """The identity of the box that a process has opened. Threads may share it."""

    def __init__(self, schema: str, place: str, known: str | None) -> None:
        self.schema = schema
        self._place = place
        self._known = known
        #: The box's id, as last seen; None: it has none yet.
        self.box_id: UUID | None = None
        self.incarnation = 0

    def look(self, connection: psycopg.Connection) -> str | None:
        """Look at the box and its server, in a transaction. A box takes its id, and of a new timeline a new incarnation."""
        row = Statements(connection, self.schema).one("look_at_identity")
        if row.box_id is not None:
            self.box_id, self.incarnation = row.box_id, row.incarnation
        if row.why_disabled is None and row.is_final:
            self._note_enabled(connection)
        why: str | None = row.why_disabled
        return why

    def check_enabled(self, connection: psycopg.Connection) -> None:
        """Check that the box isn't disabled. A connection on which it was found enabled isn't asked again."""
        if self.schema in vars(connection).get(_ENABLED, ()):
            return
        why = self._why_disabled(connection)
        if why is not None:
            raise BoxDisabled(f"the message box is disabled: {why}", where=self._place, remedy=HOW_TO_ENABLE)
        if is_standby(connection):
            raise EnvironmentProblem(
                "the server is a standby, where a message box can only be read",
                where=self._place,
                remedy="connect to the primary server, or promote this one",
            )

    def _why_disabled(self, connection: psycopg.Connection) -> str | None:
        """Why the box is disabled; nothing is written in the midst of a transaction."""
        is_own = isinstance(connection, OwnConnection)
        if is_own and is_idle(connection):  # a standby when it was made, or an operator has acted since
            why = self.look(connection)
            connection.commit()
            set_for_transactions(connection)  # it may have been promoted
            return why
        why = Statements(connection, self.schema).value("why_disabled")
        if why is None and not is_own:
            self._note_enabled(connection)
        return why

    def _note_enabled(self, connection: psycopg.Connection) -> None:
        vars(connection).setdefault(_ENABLED, set()).add(self.schema)

    def remember(self, connection: psycopg.Connection) -> None:
        """Note that a connection leads to this box, so that it needn't be checked."""
        vars(connection).setdefault(_KEPT, {})[self.schema] = self._known

    def check(
        self, connection: psycopg.Connection, own: Callable[[], AbstractContextManager[psycopg.Connection]]
    ) -> None:
        """Check that a connection leads to this box; each connection is checked once."""
        kept = vars(connection).get(_KEPT, {})
        if self.schema in kept and kept[self.schema] == self._known:
            return
        row, settings = _asked(connection, self.schema)
        if row != self._known:
            with own() as ours:  # the box may have moved since it was opened, to a newer PostgreSQL
                self._known = identity_of(ours, self.schema)
        if row != self._known:
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
    """Return the identity of the box, and the settings that `check_values` reads, in its order."""
    identity, nulls, equals, digits = Statements(connection, schema).one("identity", schema=schema)
    return None if identity is None else str(identity), (nulls, equals, digits)
