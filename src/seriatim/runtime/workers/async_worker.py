"""`AsyncWorker`: a worker for programs that run an event loop; its ``async def`` handlers run on that loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress

from seriatim.aio.message_box import AsyncMessageBox
from seriatim.errors import UsageError
from seriatim.kernel.fields import fields_apart
from seriatim.pipeline.declared.error_class import FaultKinds
from seriatim.pipeline.declared.work_limits import Lease, Limits, Mode, Pace
from seriatim.runtime.workers.handlers import GivenHandler
from seriatim.runtime.workers.worker import Worker


class AsyncWorker:
    """Works on a queue, as a `Worker` does, while an event loop runs.

    ``async def`` handlers run on the loop that runs `run`, so they may share its clients and pools; plain handlers run in the
    worker's threads. It handles no signals: let your program call `stop`, or cancel `run`.

    Args:
        box: the message box.
        queue: see `Worker`, as for all that follows.
    """

    @fields_apart(Limits)
    def __init__(
        self,
        box: AsyncMessageBox,
        queue: str,
        handler: GivenHandler | str | Mapping[str, GivenHandler | str] | None = None,
        *,
        workers: int = 8,
        batch: bool = False,
        pace: Pace | None = None,
        mode: str = Mode.TRANSACTIONAL,
        lease: Lease | float | str = 30.0,
        faults: FaultKinds | None = None,
        name: str | None = None,
        folders: Sequence[str] = (),
        run_as: str | None = None,
    ) -> None:
        self._box = box

        def made() -> Worker:
            return Worker(
                box.sync, queue, handler, workers=workers, batch=batch, pace=pace, mode=mode, lease=lease, faults=faults,
                name=name, folders=folders, run_as=run_as,
            )  # fmt: skip

        self._made = made
        self._worker: Worker | None = None
        self._is_running = False
        self._is_asked = False

    async def run(self, *, until_idle: bool = False) -> int:
        """Work until `stop` is called; then finish the current turns. It can be called again after it has returned.

        Cancelling it cancels the ``async def`` handlers at work: their work is rolled back, their messages are handed out
        again, and no attempt is counted. It returns when the turns have ended.

        Args:
            until_idle: see `Worker.run`.

        Returns:
            the number of messages that the handler got in this call.

        Raises:
            UsageError, DeploymentError, Unavailable: as from `Worker` and its `run`.
        """
        if self._is_running:
            raise UsageError("the worker runs already", remedy="create another worker, or raise its `workers`")
        self._is_running = True
        try:
            loop = asyncio.get_running_loop()
            self._worker = worker = await self._box.run(lambda _: self._made())
            return 0 if self._is_asked else await self._run(worker, loop, until_idle=until_idle)
        finally:
            self._worker, self._is_running, self._is_asked = None, False, False

    async def _run(self, worker: Worker, loop: asyncio.AbstractEventLoop, *, until_idle: bool) -> int:
        ended: Future[int] = Future()
        ended.set_running_or_notify_cancel()  # the thread ends by itself, even if the caller is cancelled

        def run() -> None:
            try:
                ended.set_result(worker.run(until_idle=until_idle, loop=loop))
            except BaseException as error:  # noqa: BLE001 -- it is raised where `run` is awaited
                ended.set_exception(error)

        threading.Thread(target=run, name="seriatim-worker", daemon=True).start()
        waiting = asyncio.wrap_future(ended)
        try:
            return await asyncio.shield(waiting)
        except asyncio.CancelledError:
            worker.cancel()
            while not waiting.done():
                with suppress(asyncio.CancelledError):  # the first one is raised when the turns have ended
                    await asyncio.wait([waiting])
            raise

    def stop(self) -> None:
        """Let `run` return after the current turns; from any thread. If `run` isn't active, its next call returns at once."""
        self._is_asked = True
        if (worker := self._worker) is not None:
            worker.stop()
