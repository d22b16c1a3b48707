"""Two regions from end to end: beside one box, when a worker dies, and when a region dies. With fsync on.

Two servers: one has the first region, the other one the second region and the journal.
"""

from __future__ import annotations

import os
import queue
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import click
import psycopg
from psycopg.conninfo import make_conninfo

import seriatim as sq
from benchmarks.measure import Claim
from seriatim.box.server.embedded import EmbeddedServer
from seriatim.errors import Unavailable

__all__ = ["regions_whole"]

_MESSAGES = int(os.environ.get("SERIATIM_BENCH_REGIONS", "2000"))
_SESSIONS, _CALL, _THREADS = 100, 50, 4
_LEASE_S = 5.0
_TAKE_OVERS = 5
_TYPE = sq.MessageType("status", {"session": "string", "number": "long"})
_ALL = sq.Subscription("all", where="type = 'status'", to="status")
_TABLE = "CREATE TABLE done (session text, number bigint)"
_INSERT = "INSERT INTO done VALUES (%s, %s)"


def regions_whole(root: Path, peers: bool) -> Iterator[Claim]:
    """About two minutes, of which take-overs are half a minute."""
    del peers
    root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=root) as folder:
        first, second = EmbeddedServer(Path(folder, "a")), EmbeddedServer(Path(folder, "b"))
        try:
            with psycopg.connect(second.dsn, autocommit=True) as connection:
                for name in ("journal", "one_box"):
                    connection.execute(f"CREATE DATABASE {name}".encode())
            dsns = [first.dsn, second.dsn, make_conninfo(second.dsn, dbname="journal")]
            with sq.Regions(*dsns, prefer=0) as regions:
                regions.define(_TYPE, sq.RegionalQueue("status", "session", "number"), _ALL)
                with psycopg.connect(dsns[2]) as connection:
                    connection.execute(_TABLE)
                yield _end_to_end(regions, make_conninfo(second.dsn, dbname="one_box"))
                yield from _take_over(regions, dsns)
                yield _loss(regions, first)
        finally:
            first.close()
            second.close()


def messages(sessions: int, many: int) -> list[sq.Message]:
    """Messages of sessions in turn, with numbers."""
    run = f"{time.monotonic_ns()}"
    return [
        sq.Message(type="status", body=b"x" * 100, context={"session": f"{run}-{at % sessions}", "number": at // sessions + 1})
        for at in range(many)
    ]  # fmt: skip


def _note(message: sq.Received, tx: sq.HandlerTransaction | sq.Session) -> None:
    tx.connection.execute(_INSERT, [message.group, message.sequence])


def _end_to_end(regions: sq.Regions, dsn: str) -> Claim:
    ours = messages(_SESSIONS, _MESSAGES)
    begun = time.perf_counter()
    for at in range(0, len(ours), _CALL):
        regions.publish(ours[at : at + _CALL])
    sent = time.perf_counter()
    sq.RegionalWorker(regions, "status", _note, region="a", workers=_THREADS).run(until_idle=True)
    ended = time.perf_counter()
    with sq.MessageBox.open(dsn) as box:
        box.define(_TYPE, sq.Queue("status", policy=sq.Standard(), group="session", sequence="number"), _ALL)
        with psycopg.connect(dsn) as connection:
            connection.execute(_TABLE)
        one_begun = time.perf_counter()
        for at in range(0, len(ours), _CALL):
            with box.session() as tx:
                tx.publish(ours[at : at + _CALL])
        one_sent = time.perf_counter()
        sq.Worker(box, "status", _note, workers=_THREADS).run(until_idle=True)
        one_ended = time.perf_counter()
    click.echo(
        f"two regions: {_MESSAGES / (sent - begun):,.0f} messages a second sent, {_MESSAGES / (ended - sent):,.0f} handled; "
        f"one box: {_MESSAGES / (one_sent - one_begun):,.0f} and {_MESSAGES / (one_ended - one_sent):,.0f}", err=True,
    )  # fmt: skip
    return Claim("two regions ÷ one box, messages a second from end to end", (one_ended - one_begun) / (ended - begun))


def _take_over(regions: sq.Regions, dsns: list[str]) -> Iterator[Claim]:
    """From the end of a worker by SIGKILL, which has a message in hand, to the moment at which the other region has handled it."""
    found = []
    for _ in range(_TAKE_OVERS):
        worker = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.regions_holder", *dsns, str(_LEASE_S)], stdout=subprocess.PIPE, text=True
        )
        try:
            ours = messages(1, 1)
            regions.publish(ours)
            assert worker.stdout is not None
            worker.stdout.readline()
        finally:
            worker.kill()
            worker.wait()
        begun = time.perf_counter()
        handled: queue.Queue[str] = queue.Queue()
        other = sq.RegionalWorker(regions, "status", partial(_tell, handled), region="b", workers=1, lease=_LEASE_S)
        running = threading.Thread(target=other.run)
        running.start()
        while handled.get(timeout=60) != ours[0].message_id:
            pass
        found.append(time.perf_counter() - begun)
        other.stop()
        running.join()
    click.echo(
        f"take-over at a lease of {_LEASE_S:g} s: median {statistics.median(found):.1f} s, longest {max(found):.1f} s",
        err=True,
    )
    yield Claim("time to take over ÷ lease, median", statistics.median(found) / _LEASE_S)
    yield Claim("time to take over ÷ lease, longest", max(found) / _LEASE_S)


def _tell(handled: queue.Queue[str], message: sq.Received, tx: sq.HandlerTransaction) -> None:
    del tx
    handled.put(message.message_id)


def _loss(regions: sq.Regions, first: EmbeddedServer) -> Claim:
    """What a sender of single messages loses when a region dies."""
    before = [_timed(regions) for _ in range(100)]
    first.close()
    after = [_timed(regions) for _ in range(100)]
    click.echo(
        f"a sender: median {statistics.median(before) * 1000:.1f} ms with both regions; the first region dies: longest "
        f"{max(after):.2f} s, then median {statistics.median(after) * 1000:.1f} ms", err=True,
    )  # fmt: skip
    return Claim("a call of a sender when a region has died ÷ before, median", statistics.median(after) / statistics.median(before))  # fmt: skip


def _timed(regions: sq.Regions) -> float:
    one = messages(1, 1)
    begun = time.perf_counter()
    while True:
        try:
            regions.publish(one)
        except Unavailable:  # repeated under the same id, as a sender does
            continue
        return time.perf_counter() - begun
