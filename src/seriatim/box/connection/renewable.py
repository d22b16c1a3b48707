"""The transaction of a session on a replaceable connection: so a receiver survives restarts of the server."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Self

import psycopg


class RenewableTransaction:
    """A transaction, in a ``with``; it commits at the end of the block, and an exception rolls it back."""

    __slots__ = ("_around", "_connect", "_connect_soon", "connection")

    def __init__(
        self,
        connect: Callable[[], AbstractContextManager[psycopg.Connection]],
        connect_soon: Callable[[], AbstractContextManager[psycopg.Connection]],
    ) -> None:
        self._connect = connect
        #: The same, for another connection, without a long wait.
        self._connect_soon = connect_soon

    def __enter__(self) -> Self:
        self._around: AbstractContextManager[psycopg.Connection] | None = None
        self._begin(self._connect)
        return self

    def renew(self, error: BaseException) -> psycopg.Connection:
        """Roll back, and begin a transaction on a connection that works."""
        around, self._around = self._around, None
        if around is not None:
            around.__exit__(type(error), error, error.__traceback__)
        self._begin(self._connect_soon)
        return self.connection

    def _begin(self, connect: Callable[[], AbstractContextManager[psycopg.Connection]]) -> None:
        around = connect()
        self.connection = around.__enter__()
        self._around = around

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._around is not None:
            self._around.__exit__(kind, error, trace)
