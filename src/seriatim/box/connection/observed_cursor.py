"""Cursors of the box's own connections; the connection inspects each statement before it is sent."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, cast


class _Seen:
    """A mixin for classes of cursors, also for the application's own class. Its methods are the driver's."""

    __slots__ = ()
    connection: Any

    def execute(self, query: Any, *arguments: Any, **options: Any) -> Any:
        self.connection.see(query)
        return super().execute(query, *arguments, **options)  # type: ignore[misc] # of a cursor

    def executemany(self, query: Any, *arguments: Any, **options: Any) -> None:
        self.connection.see(query)
        super().executemany(query, *arguments, **options)  # type: ignore[misc] # as said

    def stream(self, query: Any, *arguments: Any, **options: Any) -> Any:
        self.connection.see(query)
        return super().stream(query, *arguments, **options)  # type: ignore[misc] # as said

    def copy(self, statement: Any, *arguments: Any, **options: Any) -> AbstractContextManager[Any]:
        self.connection.see(statement)
        return cast("AbstractContextManager[Any]", super().copy(statement, *arguments, **options))  # type: ignore[misc] # as said


#: By the classes that they are made of.
_KINDS: dict[type[Any], type[Any]] = {}


def seen(kind: type[Any]) -> type[Any]:
    """Derive a class of cursors whose statements the connection inspects before they are sent."""
    if (kind_seen := _KINDS.get(kind)) is None:
        kind_seen = kind if issubclass(kind, _Seen) else type(kind.__name__, (_Seen, kind), {"__slots__": ()})
        _KINDS[kind] = kind_seen
    return kind_seen
