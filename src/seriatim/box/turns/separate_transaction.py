"""Transactions for work that must be committed even if the session rolls back: routing, timers, expired leases.

If possible, this work runs on the session's own connection: a session that waits for a second connection keeps its
first one, so with few connections all sessions would wait for ever. If the transaction is the caller's, or has done
other work, a connection that is free now does the work; if there is none, the transaction itself does it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from seriatim.box.connection.access import Transaction


class SeparateTransaction:
    __slots__ = ("_transaction", "is_free")

    def __init__(self, transaction: Transaction, *, is_free: bool) -> None:
        self._transaction = transaction
        #: Whether the session began its transaction, and only this call has used it. It may then be committed until messages are
        #: handed out.
        self.is_free = is_free

    @contextmanager
    def __call__(self) -> Iterator[Transaction]:
        """Begin a transaction; with `is_free` the session must have nothing in hand."""
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
