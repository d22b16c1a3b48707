"""The session of a handler that works under a lease: its transaction begins when the handler first uses it.

The handler's writes and the completion of its message commit together, if the lease still exists; otherwise everything
is rolled back.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from types import TracebackType

import psycopg

from seriatim.box.connection.access import Transaction
from seriatim.box.faults.lease import HeldLease
from seriatim.box.faults.postpone import hide
from seriatim.box.postgres.translate import translated
from seriatim.box.session import Session
from seriatim.box.turns.delivery import Delivery
from seriatim.box.workers.steps import Steps
from seriatim.errors import UsageError


class LeasedSession(Session):
    """The session for one call of a handler; its end rolls back all that `complete` hasn't committed."""

    def __init__(
        self, lease: HeldLease, begin: Callable[[], AbstractContextManager[Session]], run_as: str | None = None
    ) -> None:
        super().__init__(lease.access, None, own=False)
        self._lease = lease
        self._begin_transaction = begin
        #: The role of the database that the handler has; None: the worker's role.
        self._run_as = run_as
        self._transaction = ExitStack()
        self._steps: Steps | None = None
        self._step: AbstractContextManager[None] | None = None
        self._ended = False

    @property
    def token(self) -> int:
        return self._lease.token

    @property
    def delivery(self) -> Delivery:
        """The delivery of the lease; the handler has a part of it."""
        return self._lease.delivery

    @property
    def _worked_on(self) -> Delivery:
        """The delivery of the lease, whatever happened to the transaction in which it was received."""
        return self._lease.delivery

    @property
    def connection(self) -> psycopg.Connection:
        """The psycopg connection, as in every session; the first call begins the transaction."""
        if self._lease.lost.is_set():
            raise self._lease.error()
        if self._connection is None:
            if self._ended:
                raise UsageError("the session has ended", remedy="use the one of the message that is worked on")
            self._begin()
        return super().connection

    @property
    def _is_lent(self) -> bool:
        """Always: the session is made for a handler."""
        return True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Roll back all that isn't committed."""
        self._ended = True
        step, self._step = self._step, None
        try:
            if step is not None:
                step.__exit__(kind, error, trace)
        finally:
            self._connection = None
            self._transaction.__exit__(kind, error, trace)

    def handled(self) -> None:
        """Continue as the worker's role after the handler has returned; errors are those of `Steps.handled`."""
        if self._steps is not None:
            self._steps.handled()

    def complete(self, count: int, *, ends: bool, postponed: int = 0, delay_us: int | None = None) -> None:
        """Complete the next `count` messages of the lease, and commit that together with the handler's writes."""
        if self._connection is None and not self._lease.lost.is_set():
            self._join()
        connection = self.connection
        with translated(self._place):
            self._put_back()
            step, self._step = self._step, None
            if step is not None:
                step.__exit__(None, None, None)
            if self._steps is not None:
                self._steps.finish()
            transaction = Transaction(self._access, connection)
            self._lease.settle(transaction, count, ends=ends)
            if postponed and delay_us is not None:
                lease = self._lease
                rest = lease.delivery.entry_ids[lease.done + count : lease.done + count + postponed]
                hide(transaction, lease.queue, lease.delivery.group, rest, delay_us)
        self._ended, self._connection = True, None
        self._transaction.close()
        self._lease.settled(count)

    def _join(self) -> psycopg.Connection:
        self._connection = self._transaction.enter_context(self._begin_transaction()).connection
        return self._connection

    def _begin(self) -> None:
        connection = self._join()
        with translated(self._place):
            self._lease.check(Transaction(self._access, connection))
        self._steps = Steps(self, self._run_as)
        step = self._steps.step()
        step.__enter__()
        self._step = step
