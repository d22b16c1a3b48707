"""Workers: how fair they share, how soon a group moves when its worker is killed, what a suspended group costs the others."""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import psycopg

from benchmarks.measure import Claim
from benchmarks.procrastinate_peer import Procrastinate
from benchmarks.race import Race, fresh_database, handled
from benchmarks.seriatim_box import SeriatimWorker
from seriatim import Fifo, Message, MessageBox, MessageType, Pace, Queue, Session, Subscription, Worker
from seriatim.box.server.embedded import serving
from seriatim.operations import groups as operations

__all__ = ["fairness", "moves", "suspended", "working"]

_PATIENCE_S = 600.0
_PORTION = 1_000
_QUEUE = "orders"


def working(root: Path, peers: bool) -> Iterator[Claim]:
    """All of it, about five minutes."""
    with serving(root / "postgres") as server:
        click.echo(f"PostgreSQL embedded, fsync on; load of the machine {os.getloadavg()[0]:.1f}", err=True)
        yield fairness(server.dsn)
        yield from moves(server.dsn)
        yield suspended(server.dsn)
        if peers:
            yield from _beside_peer(server.dsn)


def _beside_peer(server: str, pairs: int = 3) -> Iterator[Claim]:
    """An empty handler, four workers, 1,000 groups, a lock per group there: single messages, and our runs."""
    for limit, waiting, least in ((1, 20, 4.0), (50, 50, 20.0)):
        race = Race(waiting=waiting, limit=limit, seconds=15)
        ratios = [
            handled(SeriatimWorker(), server, race) / handled(Procrastinate(), server, race) for _ in range(pairs)
        ]
        click.echo(f"pairs: {', '.join(f'{ratio:.2f}' for ratio in ratios)}", err=True)
        name = f"Worker, empty handler, at most {limit} a turn ÷ procrastinate, lock per group, median of {pairs} pairs"
        yield Claim(name, statistics.median(ratios), least)


def fairness(server: str, groups: int = 1_000, waiting: int = 20, workers: int = 8) -> Claim:
    """All begin together, at a barrier with a group in hand; handlers take 5 ms."""
    shares: Counter[int] = Counter()
    barrier, lock = threading.Barrier(workers), threading.Lock()

    def handle(message: Any, tx: Session) -> None:
        me = threading.get_ident()
        if me not in shares:
            barrier.wait(_PATIENCE_S)
        with lock:
            shares[me] += 1
        time.sleep(0.005)

    with fresh_database(server) as dsn, _box(dsn) as box:
        _publish(box, [f"g{group}" for group in range(groups)] * waiting)
        _drain(box, handle, workers, groups * waiting)
    if sum(shares.values()) < groups * waiting or len(shares) < workers:
        raise AssertionError(f"{sum(shares.values())} messages were handled by {len(shares)} workers")
    ratio = max(shares.values()) / min(shares.values())
    return Claim(f"{groups:,} groups of {waiting}, {workers} workers, 5 ms: busiest ÷ idlest", ratio, 1.5, least=False)


def moves(server: str, kills: int = 20) -> Iterator[Claim]:
    """Seconds from a kill -9 to the moment when another process's handler has the message."""
    with fresh_database(server) as dsn, _box(dsn) as box, psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE began (customer text, pid int, at timestamptz DEFAULT clock_timestamp())")
        words = [
            sys.executable,
            "-m",
            "seriatim",
            "work",
            _QUEUE,
            "--handler",
            "benchmarks.worker_handlers:first_is_slow",
        ]
        words += ["--dsn", dsn, "--processes", "3", "--workers", "1"]
        process = subprocess.Popen(words, env=os.environ | {"BENCH_DSN": dsn}, stderr=subprocess.DEVNULL)
        found = []
        try:
            for number in range(kills):
                # Until the one that was killed before has a successor: three processes are there.
                _until(connection, "SELECT count(*) >= 3 FROM seriatim.waiters")
                customer = f"c{number}"
                _publish(box, [customer])
                ((pid, _),) = _began(connection, customer, 1)
                row = connection.execute("SELECT clock_timestamp()").fetchone()
                os.kill(pid, signal.SIGKILL)
                if row is not None:
                    found.append((_began(connection, customer, 2)[1][1] - row[0]).total_seconds())
        finally:
            process.terminate()
            process.wait(_PATIENCE_S)
    yield Claim("a group moves after kill -9, seconds, median", statistics.median(found), 1.0, least=False)
    yield Claim("a group moves after kill -9, seconds, max", max(found))


def suspended(server: str, backlog: int = 100_000, groups: int = 200, waiting: int = 250, rounds: int = 7) -> Claim:
    """Messages a second of the others beside a suspended group that holds a backlog, by those without one; in turn."""
    ratios = []
    with (
        fresh_database(server) as without,
        fresh_database(server) as beside,
        _box(without) as free,
        _box(beside) as held,
    ):
        _publish(held, ["stuck"])
        with held.session() as tx:
            delivery = tx.receive(_QUEUE)
            assert delivery is not None
            delivery.put_back()
        operations.suspend(held, _QUEUE, "stuck", actor="bench", reason="bench")
        _publish(held, ["stuck"] * backlog)
        for _ in range(rounds + 1):
            took = []
            for box in (free, held):
                _publish(box, [f"g{group}" for group in range(groups)] * waiting)
                begun = time.monotonic()
                _drain(box, _nothing, 4, groups * waiting)
                took.append(time.monotonic() - begun)
            ratios.append(took[0] / took[1])
    # In the first round the backlog is judged, once.
    return Claim(f"others beside a suspended group with {backlog:,} ÷ without it", statistics.median(ratios[1:]), 0.95)


def _nothing(_message: Any, _tx: Session) -> None:
    """An empty handler."""


def _box(dsn: str) -> MessageBox:
    box = MessageBox.open(dsn)
    box.define(
        MessageType("order", properties={"customer": "string"}),
        Queue(_QUEUE, policy=Fifo(), group="customer"),
        Subscription("all-orders", where="type = 'order'", to=_QUEUE),
    )
    return box


def _publish(box: MessageBox, customers: list[str]) -> None:
    for at in range(0, len(customers), _PORTION):
        box.publish([Message(type="order", context={"customer": one}) for one in customers[at : at + _PORTION]])


def _drain(box: MessageBox, handler: Callable[[Any, Session], None], workers: int, messages: int) -> None:
    """Let a worker work until so many messages are handled. Counted here: a box would have to look at all that waits."""
    handled, counting, enough = [0], threading.Lock(), threading.Event()

    def counted(message: Any, tx: Session) -> None:
        handler(message, tx)
        with counting:
            handled[0] += 1
            if handled[0] >= messages:
                enough.set()

    worker = Worker(box, _QUEUE, counted, workers=workers, pace=Pace(run_length=10))
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        enough.wait(_PATIENCE_S)
    finally:
        worker.stop()
        thread.join()


def _until(connection: psycopg.Connection, query: str) -> None:
    until = time.monotonic() + _PATIENCE_S
    while connection.execute(query).fetchone() != (True,):
        if time.monotonic() > until:
            raise TimeoutError(query)
        time.sleep(0.005)


def _began(connection: psycopg.Connection, customer: str, times: int) -> list[Any]:
    until = time.monotonic() + _PATIENCE_S
    while time.monotonic() < until:
        query = "SELECT pid, at FROM began WHERE customer = %s ORDER BY at"
        if len(rows := connection.execute(query, [customer]).fetchall()) >= times:
            return rows
        time.sleep(0.005)
    raise TimeoutError(f"{customer} was begun fewer than {times} times")
