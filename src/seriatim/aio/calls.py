"""Make a call in a thread, and wait for it without one. Cancelling the waiting coroutine interrupts the call.

A coroutine that is cancelled goes on when its call has ended, so that what it rolls back is rolled back then. It waits for
that a few seconds at most, if the connection is the box's own: a server that doesn't answer keeps nobody.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from typing import Any, Protocol, TypeVar

from seriatim.box.connection.interruption import Interruption
from seriatim.errors import UsageError

T = TypeVar("T")
#: The interval at which a cancelled call is interrupted again until it ends, seconds.
_AGAIN_S = 0.2


class Submit(Protocol):
    """Has a function called in another thread."""

    def __call__(self, work: Callable[[], T], /) -> Future[T]:
        """Begin; the future reports the end."""


class Calls:
    """The calls of one session, or of one verb of a box, one after another."""

    def __init__(self, submit: Submit, patience_s: float | None) -> None:
        #: How long to wait for a cancelled call; None: until it has ended.
        self._patience_s = patience_s
        self.interruption = Interruption()
        #: Whether a cancelled call has failed, or is still running: then half of a verb may be done, and it mustn't be committed.
        self.is_torn = False
        self.last: Future[Any] | None = None
        #: The name of the last call, by which it is interrupted.
        self._call: object = None
        self._submit = submit

    async def make(self, work: Callable[[], T]) -> T:
        """Call a function in a thread, with the context variables of the caller; its exception passes through unchanged."""
        context = copy_context()
        self._call = call = object()
        self.last = future = self._submit(lambda: context.run(self._called, call, work))
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            await self._stop(call, future)
            raise

    async def stop(self) -> None:
        """Interrupt the call that is running, if there is one, and wait for its end. A cancellation meanwhile is raised then."""
        if self.last is not None and self.is_running:
            await self._stop(self._call, self.last)

    async def _stop(self, call: object, future: Future[Any]) -> None:
        if not future.cancel():  # it has begun
            threading.Thread(
                target=self._interrupt, args=(call, future), name="seriatim-interrupts", daemon=True
            ).start()
            try:
                await _ended(future, self._patience_s)
            finally:
                self.is_torn = not future.done() or future.exception() is not None

    async def finish(self, work: Callable[[], None]) -> None:
        """Call the function that ends a session, in a thread; also if the coroutine is cancelled meanwhile."""
        try:
            future = self._submit(work)
        except UsageError:  # the box is closed; the session has its connection still
            future = _in_thread(work)
        self.last = future
        try:
            await asyncio.shield(asyncio.wrap_future(future))
        except asyncio.CancelledError:
            await _ended(future, self._patience_s)
            raise

    @property
    def is_running(self) -> bool:
        """Whether a call is running: of another task, or one that was cancelled, and that no coroutine waits for."""
        return self.last is not None and not self.last.done()

    def _called(self, call: object, work: Callable[[], T]) -> T:
        with self.interruption.calling(call):
            try:
                return work()
            except StopIteration as error:  # no future can have it: it would end a generator
                raise RuntimeError("the function raised StopIteration") from error

    def _interrupt(self, call: object, future: Future[Any]) -> None:
        over = threading.Event()
        future.add_done_callback(lambda _: over.set())
        while not over.is_set():
            self.interruption.ask(call)
            over.wait(_AGAIN_S)


def _in_thread(work: Callable[[], None]) -> Future[None]:
    future: Future[None] = Future()

    def call() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 -- it is the caller's
            future.set_exception(error)
        else:
            future.set_result(None)

    threading.Thread(target=call, name="seriatim-ends", daemon=True).start()
    return future


async def _ended(future: Future[Any], patience_s: float | None) -> None:
    """Wait until a call has ended; for at most the given seconds, if any. A cancellation meanwhile is raised then."""
    loop = asyncio.get_running_loop()
    over, until = asyncio.Event(), None if patience_s is None else loop.time() + patience_s
    cancelled: asyncio.CancelledError | None = None

    def tell(_: Future[Any]) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(over.set)

    future.add_done_callback(tell)
    while not over.is_set():
        try:
            async with asyncio.timeout_at(until):
                await over.wait()
        except TimeoutError:
            break
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
