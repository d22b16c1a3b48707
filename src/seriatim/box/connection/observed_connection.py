"""A connection on which an application executes SQL, too: its statements are inspected before they are sent."""

from __future__ import annotations

from functools import cache
from typing import Any

import psycopg
from psycopg.rows import tuple_row
from psycopg.sql import Composable

from seriatim.box.connection.exchange import PreparingConnection
from seriatim.box.connection.observed_cursor import seen
from seriatim.box.connection.statement_effects import Effect, effect_of


class ObservedConnection(PreparingConnection):
    """A connection that is lent to an application, and taken back."""

    #: Whether an application has it.
    is_lent = False
    #: Whether a statement has set something that outlasts a transaction.
    is_changed = False

    def cursor(self, *args: Any, **options: Any) -> Any:
        """A cursor of the connection's class; the connection sees its statements first."""
        cursor = super().cursor(*args, **options)
        cursor.__class__ = seen(type(cursor))
        return cursor

    def see(self, query: Any) -> Effect:
        effect = effect_of(self._text(query))
        if Effect.SETS in effect:
            self.is_changed = True
        return effect

    def take_back(self) -> None:
        """Let statements of ours use it again, with the driver's standard cursors and rows."""
        self.is_lent = False
        self.row_factory = tuple_row
        self.cursor_factory = psycopg.Cursor
        self.server_cursor_factory = psycopg.ServerCursor

    def _text(self, query: Any) -> str:
        if isinstance(query, str):
            return query
        if isinstance(query, bytes):
            return _decoded(query)
        if isinstance(query, Composable):
            return query.as_string(self)
        return " ? ".join(getattr(query, "strings", ()))  # a template, whose values are sent separately


@cache
def _decoded(query: bytes) -> str:
    """A statement of bytes as text; only the box has such, and few."""
    return query.decode("utf-8", "replace")
