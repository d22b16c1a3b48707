"""The peer for runs: pgqueuer, which takes and completes jobs in batches and promises no order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import asyncpg
import uvloop
from pgqueuer import Job, PgQueuer, Queries

from benchmarks.race import Parcel, Seat

__all__ = ["PgQueuerPeer"]

_ENTRYPOINT = "orders"


@dataclass(frozen=True, slots=True)
class PgQueuerPeer:
    """pgqueuer as its authors measure it: asyncpg, one connection a worker, uvloop.

    Its tables are `durable`, its default: ours survive a crash, too. It has no groups, so the group of a message is
    left out. Handlers are asynchronous and without a limit, so that it takes the next batch while it completes one.
    """

    name: str = "pgqueuer"

    def prepare(self, dsn: str) -> None:
        """Its schema, by itself, and the autovacuum that it recommends."""

        async def install() -> None:
            connection = await asyncpg.connect(dsn)
            queries = Queries.from_asyncpg_connection(connection)
            await queries.install()
            await queries.optimize_autovacuum()
            await connection.close()

        uvloop.run(install())

    @contextmanager
    def publishing(self, dsn: str) -> Iterator[Callable[[Sequence[Parcel]], None]]:
        """One statement enqueues all."""
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            connection = runner.run(asyncpg.connect(dsn))
            queries = Queries.from_asyncpg_connection(connection)

            def publish(parcels: Sequence[Parcel]) -> None:
                count = len(parcels)
                runner.run(queries.enqueue([_ENTRYPOINT] * count, [p.body for p in parcels], [0] * count))

            try:
                yield publish
            finally:
                runner.run(connection.close())

    def work(self, dsn: str, limit: int, seat: Seat) -> None:
        """One worker, with `limit` as its batch size."""
        uvloop.run(_work(dsn, limit, seat))


async def _work(dsn: str, limit: int, seat: Seat) -> None:
    connection = await asyncpg.connect(dsn)
    worker = PgQueuer.from_asyncpg_connection(connection)

    @worker.entrypoint(_ENTRYPOINT)
    async def handle(job: Job) -> None:
        seat.handle(job.payload or b"")
        await seat.done_in_loop(1)

    async def stop() -> None:
        await asyncio.to_thread(seat.wait)
        worker.shutdown.set()

    seat.begin()
    stopping = asyncio.create_task(stop())
    await worker.run(batch_size=limit)
    await stopping
    await connection.close()
