"""``async def`` handlers: an event loop runs them, and the worker's thread makes the calls of their session meanwhile."""

from __future__ import annotations

import asyncio
import functools
import os
import queue
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

from seriatim.aio.delivery import AsyncDelivery
from seriatim.aio.session import AsyncSession, LentSession
from seriatim.box.session import Session
from seriatim.box.turns.delivery import Delivery
from seriatim.errors import UsageError

T = TypeVar("T")
_Function = Callable[[Any, AsyncSession], Coroutine[Any, Any, Any]]


class HandlerStopped(BaseException):
    """A handler was cancelled because its worker stops or has given it up: its message hasn't failed."""


class HandlerLoop:
    """The handlers of one run of a worker, on an event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        #: The event loop, which runs in another thread than the handlers' workers; None: that of the process.
        self._given = loop
        self._lock = threading.Lock()
        #: The handler at work for each thread of a worker.
        self._tasks: dict[int, asyncio.Task[Any]] = {}
        self._given_up: set[int] = set()
        self._is_stopped = False

    def check(self) -> None:
        """Check that handlers can run."""
        if self._given is not None and self._given.is_closed() and not self._is_stopped:
            raise UsageError(
                "the event loop of the handlers is closed", remedy="keep it open until the worker's run has returned"
            )

    def run(self, function: _Function, argument: object, tx: LentSession, calls: _ThreadCalls) -> Any:
        """Run a handler on the loop; the calling thread makes the calls of its session until it has returned."""
        me, loop = threading.get_ident(), self._given or loop_of_process()
        ended: Future[Any] = Future()

        def start() -> None:
            with self._lock:
                if self._is_stopped:
                    ended.cancel()
                    calls.end()
                    return
                task = loop.create_task(_handle(function, argument, tx, ended))
                self._tasks[me] = task
            task.add_done_callback(over)

        def over(task: asyncio.Task[Any]) -> None:
            with self._lock:
                del self._tasks[me]
                stopped = self._is_stopped or me in self._given_up
                self._given_up.discard(me)
            if task.cancelled() and stopped:
                ended.cancel()
            elif task.cancelled():
                ended.set_exception(asyncio.CancelledError("the handler was cancelled"))
            elif (error := task.exception()) is not None:
                ended.set_exception(error)
            elif not ended.done():
                ended.set_result(task.result())
            calls.end()

        try:
            loop.call_soon_threadsafe(start)
        except RuntimeError:  # it is closed; see `check`
            raise HandlerStopped from None
        calls.make_all()
        if ended.cancelled():
            raise HandlerStopped
        return ended.result()

    def stop(self) -> None:
        """Cancel all handlers at work, and begin none any more. Thread-safe."""
        with self._lock:
            self._is_stopped = True
            for task in self._tasks.values():
                task.get_loop().call_soon_threadsafe(task.cancel)

    def give_up(self, thread: int | None) -> None:
        """Cancel the handler at work for a thread, if there is one: it took too long."""
        with self._lock:
            if thread is not None and (task := self._tasks.get(thread)) is not None:
                self._given_up.add(thread)
                task.get_loop().call_soon_threadsafe(task.cancel)


async def _handle(function: _Function, argument: object, tx: LentSession, ended: Future[Any]) -> Any:
    try:
        return await function(argument, tx)
    except SystemExit as error:  # it would end the event loop, and with it the handlers of others
        ended.set_exception(error)


class _ThreadCalls:
    """Calls of a coroutine, made by the thread that waits for the coroutine."""

    def __init__(self) -> None:
        self._calls: queue.Queue[Callable[[], None] | None] = queue.Queue()
        self._lock = threading.Lock()
        self._is_ended = False

    def submit(self, work: Callable[[], T], /) -> Future[T]:
        future: Future[T] = Future()

        def call() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(work())
            except BaseException as error:  # noqa: BLE001 -- it is the caller's
                future.set_exception(error)

        with self._lock:
            if self._is_ended:
                raise UsageError("the session has ended", remedy="await all that uses it in the handler")
            self._calls.put(call)
        return future

    def end(self) -> None:
        """No further call is made; from any thread."""
        with self._lock:
            self._is_ended = True
            self._calls.put(None)

    def make_all(self) -> None:
        while (call := self._calls.get()) is not None:
            call()


def plain(function: _Function, loop: Callable[[], HandlerLoop]) -> Callable[[Any, Session], Any]:
    """A plain handler that runs a coroutine function on a loop, and returns its answer."""

    @functools.wraps(function)
    def handle(argument: Any, session: Session) -> Any:
        calls = _ThreadCalls()
        tx = LentSession(session, calls.submit)
        if isinstance(argument, Delivery):
            argument = AsyncDelivery(argument, tx.call)
        try:
            answer = loop().run(function, argument, tx, calls)
        finally:
            tx.close()
        tx.check_whole()
        return answer

    return handle


_LOOPS: dict[int, asyncio.AbstractEventLoop] = {}
_MAKING = threading.Lock()


def loop_of_process() -> asyncio.AbstractEventLoop:
    """Return the event loop of this process for handlers, in a separate thread; it lives as long as the process."""
    with _MAKING:
        loop = _LOOPS.get(os.getpid())
        if loop is None:
            loop = _LOOPS[os.getpid()] = asyncio.new_event_loop()
            threading.Thread(target=_run_always, args=[loop], name="seriatim-handlers", daemon=True).start()
        return loop


def _run_always(loop: asyncio.AbstractEventLoop) -> None:
    while True:
        with suppress(BaseException):  # a task's KeyboardInterrupt or SystemExit; the task has it, too
            loop.run_forever()
