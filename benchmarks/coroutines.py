"""The asyncio face: coroutines in as many threads as there are connections, beside one thread and beside as many threads."""

from __future__ import annotations

import asyncio
import os
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import click

from benchmarks.measure import Claim
from benchmarks.race import fresh_database
from seriatim import AsyncMessageBox, Fifo, Message, MessageBox, MessageType, Queue, Subscription
from seriatim.box.server.embedded import serving

__all__ = ["coroutines"]

_CONNECTIONS = 20
_MESSAGES, _PAIRS = 2_000, 5
_WAITING = 1_000


def coroutines(root: Path, peers: bool) -> Iterator[Claim]:
    """All of it, about two minutes."""
    with serving(root / "postgres") as server:
        click.echo(f"PostgreSQL embedded, fsync on; load of the machine {os.getloadavg()[0]:.1f}", err=True)
        with fresh_database(server.dsn) as dsn, MessageBox.open(dsn, connections=_CONNECTIONS) as box:
            box.define(
                MessageType("order", properties={"customer": "string"}),
                Queue("orders", policy=Fifo(), group="customer"),
                Subscription("all-orders", where="type = 'order'", to="orders"),
            )
            yield from asyncio.run(_measured(box))


async def _measured(box: MessageBox) -> list[Claim]:
    face = AsyncMessageBox(box)

    def publish(number: int) -> None:
        with box.session() as tx:
            tx.connection.execute("SELECT 1")
            tx.publish(_order(number))

    async def publish_later(number: int) -> None:
        async with face.session() as tx:
            await tx.execute("SELECT 1")
            await tx.publish(_order(number))

    def receive(_: int) -> None:
        with box.session() as tx:
            delivery = tx.receive("orders")
            assert delivery is not None
            delivery.done()

    async def receive_later(_: int) -> None:
        async with face.session() as tx:
            delivery = await tx.receive("orders")
            assert delivery is not None
            await delivery.done()

    alone: list[tuple[float, float]] = []
    threaded: list[tuple[float, float]] = []
    for pair in range(_PAIRS + 1):  # the first makes plans and connections
        ways = [await _seconds(box, publish, publish_later, count) for count in (1, _CONNECTIONS, 0)]
        back = [await _seconds(box, receive, receive_later, count) for count in (1, _CONNECTIONS, 0)]
        if pair:
            alone.append((ways[0] / ways[2], back[0] / back[2]))
            threaded.append((ways[1] / ways[2], back[1] / back[2]))
    idle = await _idle(face)
    await face.close()
    n = f"{_CONNECTIONS} connections, median of {_PAIRS}"
    return [
        Claim(f"coroutines, a statement and a message a transaction ÷ one thread, {n}", _median(alone, 0), 1.5),
        Claim(f"coroutines, a message received and done ÷ one thread, {n}", _median(alone, 1), 1.5),
        Claim(f"coroutines, a statement and a message a transaction ÷ {_CONNECTIONS} threads", _median(threaded, 0), 0.4),
        Claim(f"coroutines, a message received and done ÷ {_CONNECTIONS} threads", _median(threaded, 1), 0.4),
        Claim(f"{_WAITING:,} coroutines wait for messages: share of a processor", idle, 0.05, least=False),
    ]  # fmt: skip


def _order(number: int) -> Message:
    return Message(type="order", body=b"x" * 1024, context={"customer": f"c{number}"})


def _median(ratios: list[tuple[float, float]], which: int) -> float:
    return statistics.median(ratio[which] for ratio in ratios)


async def _seconds(
    box: MessageBox, plain: Callable[[int], None], later: Callable[[int], Awaitable[None]], threads: int
) -> float:
    """The time that all messages take, in this number of threads; 0: as coroutines, twice as many as there are connections."""
    began = time.perf_counter()
    if threads:
        with ThreadPoolExecutor(threads) as pool:
            await asyncio.get_running_loop().run_in_executor(None, lambda: list(pool.map(plain, range(_MESSAGES))))
    else:
        numbers = iter(range(_MESSAGES))

        async def some() -> None:
            for number in numbers:
                await later(number)

        await asyncio.gather(*(some() for _ in range(2 * _CONNECTIONS)))
    return time.perf_counter() - began


async def _idle(face: AsyncMessageBox, seconds: float = 5.0) -> float:
    """The processor's time a second that a thousand coroutines take which wait for messages."""

    async def wait() -> None:
        async with face.session() as tx:
            await tx.receive("orders", wait=600)

    waiting = [asyncio.create_task(wait()) for _ in range(_WAITING)]
    await asyncio.sleep(10)  # until all have looked
    began = time.process_time()
    await asyncio.sleep(seconds)
    took = time.process_time() - began
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    return took / seconds
