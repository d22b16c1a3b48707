"""Cursors of the box's own connections; the connection inspects each statement before it is sent."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Protocol, cast


class _Sees(Protocol):
    def see(self, query: Any) -> None:
        """Refuse a statement that may not be executed now."""


class _Seen:
    """A mixin for classes of cursors, also for the application's own class."""

    __slots__ = ()

    def execute(self, query: Any, *arguments: Any, **options: Any) -> Any:
        """Like the driver's method; the connection sees the statement first."""
        _see(self, query)
        return super().execute(query, *arguments, **options)  # type: ignore[misc] # of a cursor

    def executemany(self, query: Any, *arguments: Any, **options: Any) -> None:
        """Like the driver's method; the connection sees the statement first."""
        _see(self, query)
        super().executemany(query, *arguments, **options)  # type: ignore[misc] # as said

    def stream(self, query: Any, *arguments: Any, **options: Any) -> Any:
        """Like the driver's method; the connection sees the statement first."""
        _see(self, query)
        return super().stream(query, *arguments, **options)  # type: ignore[misc] # as said

    def copy(self, statement: Any, *arguments: Any, **options: Any) -> AbstractContextManager[Any]:
        """Like the driver's method; the connection sees the statement first."""
        _see(self, statement)
        return cast("AbstractContextManager[Any]", super().copy(statement, *arguments, **options))  # type: ignore[misc] # as said


def _see(cursor: Any, query: Any) -> None:
    connection: _Sees = cursor.connection
    connection.see(query)


#: By the classes that they are made of.
_KINDS: dict[type[Any], type[Any]] = {}


def seen(kind: type[Any]) -> type[Any]:
    """Derive a class of cursors whose statements the connection inspects before they are sent."""
    if (kind_seen := _KINDS.get(kind)) is None:
        kind_seen = kind if issubclass(kind, _Seen) else type(kind.__name__, (_Seen, kind), {"__slots__": ()})
        _KINDS[kind] = kind_seen
    return kind_seen
