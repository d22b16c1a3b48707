"""Wait for replies: one thread and one connection listen for all callers of a process, and look for all their requests at once.

A waiting caller has no connection. The thread also routes what was published through SQL, as receivers do: a reply may be among it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, InvalidStateError
from contextlib import AbstractContextManager, contextmanager, suppress

from seriatim.box.connection.access import Transaction
from seriatim.box.publishing.sql_arrivals import is_unrouted, route_pending
from seriatim.box.requests.requests import alone
from seriatim.box.turns.listener import Listener
from seriatim.box.turns.listening_thread import IDLE_S, LOOK_S, ListeningThread, Opened

__all__ = ["RepliesThread"]

#: Under this number, in place of a queue's, who waits for replies is registered.
_REPLIES = -1


class RepliesThread(ListeningThread):
    """Tells callers that it is worth to look for replies."""

    def __init__(self, more: Callable[[], AbstractContextManager[Opened]]) -> None:
        super().__init__(more)
        #: The callers, each with the id of its request, and the number of replies that it waits for.
        self._callers: dict[Future[None], tuple[str, int]] = {}
        #: Those of them who have come since the last look.
        self._fresh: set[Future[None]] = set()

    @property
    def _is_needed(self) -> bool:
        return bool(self._callers)

    @contextmanager
    def waiting(self, request_id: str, count: int) -> Iterator[Future[None]]:
        """A caller waits in this block: the future is done when the request has so many replies, was set aside, or is over."""
        caller: Future[None] = Future()
        with self._lock:
            self._callers[caller] = request_id, count
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

    def _call_all(self) -> None:
        with self._lock:
            callers, self._callers = self._callers, {}
        self._call(callers)

    def _call(self, callers: Iterable[Future[None]]) -> None:
        for caller in callers:
            with suppress(InvalidStateError):  # a coroutine may have cancelled it
                caller.set_result(None)

    def _listen(self, listener: Listener, transaction: Transaction) -> None:
        is_called, looks_at, used_at = True, 0.0, time.monotonic()
        while not self._is_closed:
            self._stirred()
            now = time.monotonic()
            is_all = is_called or now >= looks_at
            self._look(transaction, is_all=is_all)
            if is_all:
                looks_at = now + LOOK_S
                if (
                    is_called
                ):  # only now, so that callers don't wait for it; what has come since is found by another look
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
        """Call those who may find replies: of all callers, or of those who have come since the last look."""
        with self._lock:
            wanted = [(caller, asks) for caller, asks in self._callers.items() if is_all or caller in self._fresh]
            self._fresh.clear()
        if wanted:
            ids, counts = [asks[0] for _, asks in wanted], [asks[1] for _, asks in wanted]
            ((places,),) = alone(transaction, "answered", requests=ids, counts=counts)
            self._call(wanted[place - 1][0] for place in places)


@contextmanager
def _alone(transaction: Transaction) -> Iterator[Transaction]:
    """The connection's next transaction, which commits at the end of the block."""
    yield transaction
    transaction.commit()
