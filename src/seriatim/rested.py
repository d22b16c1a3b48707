"""A connection that was idle is asked before it is used: a server, a firewall or a proxy may have dropped it, and nobody told this process.

One empty round trip tells. What is asked is never the call itself, so a call is neither repeated nor lost.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import psycopg
from psycopg import errors, generators
from psycopg.pq import TransactionStatus

#: A connection that was used less than so many seconds ago is used without a question.
RESTED_S = 1.0
#: For so many seconds its answer is waited for; some callers have less time.
_ASK_S: ContextVar[float] = ContextVar("seriatim_ask_s", default=2.0)


@contextmanager
def asked_within(seconds: float) -> Iterator[None]:
    """Within the block idle connections have only so many seconds to answer, if that is less than usual."""
    token = _ASK_S.set(min(seconds, _ASK_S.get()))
    try:
        yield
    finally:
        _ASK_S.reset(token)


class RestedConnection(psycopg.Connection[Any]):
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        #: When it was used last, by this process's monotonic clock.
        self.used_at = time.monotonic()

    def ask(self, within_s: float = math.inf) -> None:
        """Make an empty round trip; a connection that doesn't answer in time is closed."""
        within = min(within_s, _ASK_S.get())
        with self.lock:
            try:
                self.pgconn.send_query(b"")
                self.wait(generators.execute(self.pgconn), timeout=within)
            except errors._WaitTimeout:  # noqa: SLF001 -- the driver says so that `timeout` raises it
                self.pgconn.finish()
                raise psycopg.OperationalError(f"an idle connection hasn't answered for {within:g} s") from None
        if self.pgconn.transaction_status != TransactionStatus.IDLE:
            raise psycopg.OperationalError("an idle connection is lost")
        self.used_at = time.monotonic()


class Restedness:
    """Decides which connections of a pool are asked. Threads may share it."""

    def __init__(self) -> None:
        self._broke_at = self._lost_at = -1.0

    def broke(self) -> None:
        """Note that a connection broke while it was used: mostly all are broken, so those that weren't used since are asked, too."""
        self._broke_at = time.monotonic()

    def check(self, connection: RestedConnection, within_s: float = math.inf) -> None:
        """Ask a connection that was idle; where one is lost, those that weren't used since count as lost, too, without a question.
        `within_s`: how long to wait for the connection's answer, seconds, if that is less than usual.
        """
        used_at = connection.used_at
        if used_at <= self._lost_at:
            connection.close()
            raise psycopg.OperationalError("the other idle connections are lost")
        if used_at > self._broke_at and time.monotonic() - used_at < RESTED_S:
            return
        try:
            connection.ask(within_s)
        except psycopg.Error:
            self._lost_at = time.monotonic()
            connection.close()
            raise
