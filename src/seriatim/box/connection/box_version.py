"""`BoxVersion`: notice that a box was migrated while a process has it open."""

from __future__ import annotations

import psycopg

from seriatim.box.postgres.migrate import Applied, find
from seriatim.box.postgres.statements import Statements
from seriatim.errors import SeriatimError

_PATIENCE_S = 5


class BoxVersion:
    __slots__ = ("__weakref__", "_dsn", "_found", "_schema")

    def __init__(self, dsn: str, schema: str, applied: Applied | None) -> None:
        self._dsn, self._schema, self._found = dsn, schema, applied

    def changed_to(self) -> str | None:
        """Return the box's present state in words; None: it is unchanged, or can't be read now. Makes a separate connection."""
        if self._found is None:
            return None
        try:
            with psycopg.connect(self._dsn, connect_timeout=_PATIENCE_S) as connection:
                now = find(Statements(connection, self._schema))
        except (psycopg.Error, SeriatimError):
            return None
        if now is None or (
            now.function_sets[-1:] == self._found.function_sets[-1:] and now.version == self._found.version
        ):
            return None
        if now.version != self._found.version:
            return f"it has version {now.version}, and had {self._found.version} when this process opened it"
        return f"its functions are others of version {now.version} than when this process opened it"
