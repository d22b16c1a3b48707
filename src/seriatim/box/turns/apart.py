"""Work that has to be committed whatever becomes of the session's transaction: routing, timers, leases that ran out.

It is done on the session's own connection wherever that can be, for another one may not be had: a session that waits for a
second connection holds on to its first one, and where there are few all of them wait for ever. Where the transaction is the
caller's, or has done something already, a connection that is free this moment does it, or else the transaction itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from seriatim.box.connection.access import Transaction

__all__ = ["SeparateTransaction"]


class SeparateTransaction:
    """Gives the transactions for that to one call.

    Args:
        transaction: the session's.
        is_free: whether its transaction is the session's own, and has done nothing but what this call did: it may be
            committed as long as nothing is handed out.
    """

    __slots__ = ("_transaction", "is_free")

    def __init__(self, transaction: Transaction, *, is_free: bool) -> None:
        self._transaction = transaction
        self.is_free = is_free

    @contextmanager
    def __call__(self) -> Iterator[Transaction]:
        """A transaction; nothing may be in hand where the session's may be committed."""
        session = self._transaction
        if self.is_free:
            session.commit()
            yield session
            session.commit()
            return
        with session.access.spare() as other:
            if other is None:
                yield session
                return
            apart = Transaction(session.access, other)
            yield apart
            apart.publish_notices()
