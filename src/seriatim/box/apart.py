"""Work that has to be committed whatever becomes of the session's transaction: routing, timers, leases that ran out.

It is done on the session's own connection wherever that can be, for another one may not be had: a session that waits for a
second connection holds on to its first one, and where there are few all of them wait for ever. Where the transaction is the
caller's, or has done something already, a connection that is free this moment does it, or else the transaction itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from seriatim.box.access import Access

__all__ = ["Apart"]


class Apart:
    """Gives the transactions for that to one call.

    Args:
        access: the box.
        connection: of the session.
        is_free: whether its transaction is the session's own, and has done nothing but what this call did: it may be
            committed as long as nothing is handed out.
    """

    __slots__ = ("_access", "_connection", "is_free")

    def __init__(self, access: Access, connection: psycopg.Connection, *, is_free: bool) -> None:
        self._access = access
        self._connection = connection
        self.is_free = is_free

    @contextmanager
    def __call__(self) -> Iterator[psycopg.Connection]:
        """A transaction; nothing may be in hand where the session's may be committed."""
        if self.is_free:
            self._connection.commit()
            yield self._connection
            self._connection.commit()
            return
        with self._access.spare() as other:
            yield self._connection if other is None else other
