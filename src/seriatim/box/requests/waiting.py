"""Wait for replies: one thread and one connection listen for all callers of a process, and look for all their requests at once.

A waiting caller has no connection. The thread also routes what was published through SQL, as receivers do: a reply may be among it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, InvalidStateError
from contextlib import AbstractContextManager, contextmanager, suppress

import psycopg

from seriatim.box.connection.access import Transaction
from seriatim.box.connection.round_trip import OwnConnection
from seriatim.box.publishing.sql_arrivals import is_unrouted, route_pending
from seriatim.box.requests.requests import Awaited, Found, Wait, found_of
from seriatim.box.turns.listener import Listener
from seriatim.box.turns.listening_thread import IDLE_S, LOOK_S, ListeningThread, Opened

#: Under this number, in place of a queue's, who waits for replies is registered.
_REPLIES = -1
#: The bytes of a reply that the thread reads for its caller; a larger one, or one with parts, the caller reads itself.
_LARGEST = 16 * 1024


class RepliesThread(ListeningThread):
    def __init__(self, more: Callable[[], AbstractContextManager[Opened]]) -> None:
        super().__init__(more)
        #: The callers, each with the role as which it asks, and what it waits for.
        self._callers: dict[Future[Found | None], tuple[str | None, Awaited]] = {}
        #: Those of them who have come since the last look.
        self._fresh: set[Future[Found | None]] = set()

    @property
    def _is_needed(self) -> bool:
        return bool(self._callers)

    @contextmanager
    def waiting(self, role: str | None, wanted: Awaited) -> Iterator[Future[Found | None]]:
        """A caller waits in this block: the future has what there is when nobody has to wait any more, or None: look."""
        caller: Future[Found | None] = Future()
        with self._lock:
            self._callers[caller] = role, wanted
            self._fresh.add(caller)
            if self._is_closed:
                caller.set_result(None)
            else:
                self._begin()
        try:
            yield caller
        finally:
            with self._lock:
                self._callers.pop(caller, None)
                self._fresh.discard(caller)

    def wait(self, role: str | None, step: Wait) -> Found | None:
        with self.waiting(role, step.awaited) as caller, suppress(TimeoutError):
            return caller.result(step.seconds)
        return None

    def call_all(self) -> None:
        with self._lock:
            callers, self._callers = self._callers, {}
        for caller in callers:
            _tell(caller, None)

    def _listen(self, listener: Listener, transaction: Transaction) -> None:
        is_called, looks_at, used_at = True, 0.0, time.monotonic()
        while not self._is_closed:
            self._stirred()
            now = time.monotonic()
            is_all = is_called or now >= looks_at
            self._look(transaction, is_all=is_all)
            if is_all:
                looks_at = now + LOOK_S
                if is_called:
                    # Only now, so that callers don't wait for it; another look finds what has come since.
                    listener.ask([(None, _REPLIES)], anew=True)
                if is_unrouted(transaction):
                    transaction.commit()
                    route_pending(transaction.access, lambda: _alone(transaction))
                transaction.commit()
                if is_called:
                    self._look(transaction, is_all=True)
            with self._lock:
                used_at = now if self._callers else used_at
            if now - used_at > IDLE_S:
                return
            is_called = listener.wait(looks_at - time.monotonic(), self._heard)

    def _look(self, transaction: Transaction, *, is_all: bool) -> None:
        """Look for the replies of all callers, or of those who have come since the last look."""
        of_role: dict[str | None, dict[Future[Found | None], Awaited]] = {}
        with self._lock:
            for caller, (role, wanted) in self._callers.items():
                if (is_all or caller in self._fresh) and not caller.done():
                    of_role.setdefault(role, {})[caller] = wanted
            self._fresh.clear()
        own, as_it_was = transaction.connection, transaction.access.role
        for role, asks in of_role.items():
            try:
                if isinstance(own, OwnConnection):
                    own.role = role
                found = found_of(transaction, list(asks.values()), _LARGEST)
            except psycopg.Error:
                if own.closed:
                    raise
                own.rollback()
                found = dict.fromkeys(range(len(asks)))  # this role's callers get the error themselves
            finally:
                if isinstance(own, OwnConnection):
                    own.role = as_it_was
            callers = list(asks)
            for place, answer in found.items():
                _tell(callers[place], answer)


def _tell(caller: Future[Found | None], answer: Found | None) -> None:
    with suppress(InvalidStateError):  # a coroutine may have cancelled it
        caller.set_result(answer)


@contextmanager
def _alone(transaction: Transaction) -> Iterator[Transaction]:
    """The connection's next transaction, which commits at the end of the block."""
    yield transaction
    transaction.commit()
