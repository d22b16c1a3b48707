"""The peer for single messages: procrastinate, with a `lock` for each group, which is how it keeps order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from procrastinate import App, PsycopgConnector, SyncPsycopgConnector

from benchmarks.race import Parcel, Seat

__all__ = ["Procrastinate"]

_QUEUE, _TASK = "orders", "handle"


@dataclass(frozen=True, slots=True)
class Procrastinate:
    """procrastinate 3 with psycopg, which is the driver that its authors recommend.

    Args:
        concurrency: jobs that a worker process has at once. It fetches one job after another in any case, but with
            more than one it completes a job while it fetches the next: the best of what was tried is the default.
        delete_jobs: completed jobs are deleted, as ours are; its own default keeps them, and a queue that grows.
    """

    name: str = "procrastinate"
    concurrency: int = 1
    delete_jobs: str = "successful"

    def prepare(self, dsn: str) -> None:
        """Its schema, by itself."""
        with App(connector=SyncPsycopgConnector(conninfo=dsn)).open() as app:
            app.schema_manager.apply_schema()

    @contextmanager
    def publishing(self, dsn: str) -> Iterator[Callable[[Sequence[Parcel]], None]]:
        """Jobs of several locks in one statement, as `batch_defer` does for those of one lock. A pool of one."""
        app = App(connector=SyncPsycopgConnector(conninfo=dsn, min_size=1, max_size=1))
        with app.open():

            def publish(parcels: Sequence[Parcel]) -> None:
                jobs = [
                    app.configure_task(_TASK, queue=_QUEUE, lock=parcel.group).make_new_job(body=parcel.body.decode())
                    for parcel in parcels
                ]
                app.job_manager.batch_defer_jobs(jobs)

            yield publish

    def work(self, dsn: str, limit: int, seat: Seat) -> None:
        """One worker; it has no batches, so that `limit` says nothing to it."""
        asyncio.run(self._work(dsn, seat))

    async def _work(self, dsn: str, seat: Seat) -> None:
        # A connection to fetch, one for each job that completes: none waits for another.
        app = App(
            connector=PsycopgConnector(conninfo=dsn, min_size=1 + self.concurrency, max_size=4 + self.concurrency)
        )

        @app.task(name=_TASK, queue=_QUEUE)
        async def handle(body: str) -> None:  # asynchronous: a synchronous task would cost it a thread each
            seat.handle(body.encode())
            await seat.done_in_loop(1)

        async with app.open_async():
            seat.begin()
            worker = asyncio.create_task(
                app.run_worker_async(
                    queues=[_QUEUE],
                    concurrency=self.concurrency,
                    delete_jobs=self.delete_jobs,
                    install_signal_handlers=False,  # the race tells it when to stop
                )
            )
            stopping = asyncio.create_task(asyncio.to_thread(seat.wait))
            await asyncio.wait((worker, stopping), return_when=asyncio.FIRST_COMPLETED)
            worker.cancel()  # it ends what it has begun, and then raises this
            with suppress(asyncio.CancelledError):
                await worker
