"""Slots: as many coroutines at once as the box has connections; the others wait, without a thread."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from concurrent.futures import Future

from seriatim.errors import Unavailable

#: As long as a pool makes a thread wait for a connection.
_PATIENCE_S = 30.0


class Slots:
    """The slots of a box, for coroutines of any event loop."""

    def __init__(self, count: int, place: str) -> None:
        self._free = count
        self._place = place
        self._lock = threading.Lock()
        self._waiting: deque[Future[None]] = deque()

    async def take(self) -> None:
        with self._lock:
            if self._free:
                self._free -= 1
                return
            ticket: Future[None] = Future()
            self._waiting.append(ticket)
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await asyncio.wrap_future(ticket)
        except BaseException as error:
            if not ticket.cancel():  # it got one just now
                self.give_back()
            if isinstance(error, TimeoutError):
                raise Unavailable(
                    f"no connection became free in {_PATIENCE_S:g} s: other sessions have them all",
                    where=self._place,
                    remedy="open the box with more connections, and do what takes long outside of sessions",
                ) from None
            raise

    def give_back(self) -> None:
        """Give a slot back. Thread-safe."""
        with self._lock:
            while self._waiting:
                ticket = self._waiting.popleft()
                if ticket.set_running_or_notify_cancel():
                    ticket.set_result(None)
                    return
            self._free += 1
