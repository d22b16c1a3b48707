"""Claims of the journal of two regions beside bare single-row commits, with fsync on.

A message that is claimed singly takes two commits: the claim and the completion. So it is measured beside two bare ones, of a row of the same size. In a
run of several messages the claim is shared.

The same workers, with the same connections, do all three in turn, for a fraction of a second each, and the times are added. On which cores the kernel puts
the threads of a process and their servers doubles Python's time a message, for bare commits as for claims: threads that are on several cores contend for
Python's lock. It puts them alike for seconds on end, so measured one after another each would be measured in a placement of its own.
"""

from __future__ import annotations

import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import click
import psycopg

from benchmarks.measure import Claim
from seriatim.box.server.embedded import EmbeddedServer
from seriatim.regions.journal.journal import Journal
from seriatim.regions.journal.values import QueueRules, WantedMessage

__all__ = ["claiming"]

#: Messages of each worker.
_MESSAGES = int(os.environ.get("SERIATIM_BENCH_REGIONS", "3000"))
_ROUNDS = 10
_RUN = 10
_MOST_WORKERS = 4
_DIGEST = bytes(32)
_WAYS = ("bare", "singly", "in runs")
_PROCESSES = get_context("spawn")
#: So long all wait for the slowest of a round.
_PATIENCE_S = 120


def claiming(root: Path, peers: bool) -> Iterator[Claim]:
    """Half a minute."""
    del peers
    server = EmbeddedServer(root / "postgres-regions")
    try:
        click.echo(f"PostgreSQL embedded, fsync on; load of the machine {os.getloadavg()[0]:.1f}", err=True)
        with Journal.open(server.dsn, connections=2 * _MOST_WORKERS) as journal:
            journal.define("bench", "status", QueueRules())
            yield from _ratios("one worker", *_in_threads(server.dsn, journal, 1))
            yield from _ratios(f"{_MOST_WORKERS} threads", *_in_threads(server.dsn, journal, _MOST_WORKERS))
            yield from _ratios(f"{_MOST_WORKERS} processes", *_in_processes(server.dsn, _MOST_WORKERS))
            yield _sets(journal)
    finally:
        server.close()


def _in_threads(dsn: str, journal: Journal, many: int) -> tuple[list[threading.Thread], Any]:
    """Threads that share a journal, and the barrier at which they and who measures meet."""
    barrier = threading.Barrier(many + 1)
    return [threading.Thread(target=_worker, args=(barrier, dsn, place, journal)) for place in range(many)], barrier


def _in_processes(dsn: str, many: int) -> tuple[list[Any], Any]:
    """As `_in_threads`, each with a journal of its own."""
    barrier = _PROCESSES.Barrier(many + 1)
    return [_PROCESSES.Process(target=_process, args=(barrier, dsn, place)) for place in range(many)], barrier


def _ratios(told: str, workers: list[Any], barrier: Any) -> Iterator[Claim]:
    """How often the workers do two bare commits in a second, a message that is claimed singly, and one of a run."""
    for one in workers:
        one.start()
    seconds = dict.fromkeys(_WAYS, 0.0)
    with _ending(barrier):
        for turn in range(1 + _ROUNDS):
            for way in _WAYS:
                barrier.wait(_PATIENCE_S)
                begun = time.perf_counter()
                barrier.wait(_PATIENCE_S)
                seconds[way] += time.perf_counter() - begun if turn else 0  # in the first one plans are made
    for one in workers:
        one.join()
    bare, singly, in_runs = (len(workers) * _ROUNDS * _in_round() / seconds[way] for way in _WAYS)
    click.echo(
        f"{told}: two bare commits {bare:,.0f} times a second, {singly:,.0f} messages claimed singly, {in_runs:,.0f} in runs of {_RUN}",
        err=True,
    )
    yield Claim(f"messages claimed singly ÷ two bare commits, {told}", singly / bare, 0.5)
    yield Claim(f"messages claimed in runs of {_RUN} ÷ two bare commits, {told}", in_runs / bare, None)


def _process(barrier: Any, dsn: str, place: int) -> None:
    with _ending(barrier), Journal.open(dsn, connections=1) as journal:
        _worker(barrier, dsn, place, journal)


def _worker(barrier: Any, dsn: str, place: int, journal: Journal) -> None:
    with _ending(barrier), psycopg.connect(dsn, autocommit=True) as connection:
        table = f"bare_{place}"
        connection.execute(
            f"CREATE TABLE IF NOT EXISTS {table} (id int PRIMARY KEY, number bigint, told text)".encode()
        )
        connection.execute(f"INSERT INTO {table} VALUES (1, 0, repeat('x', 200)) ON CONFLICT DO NOTHING".encode())
        ways: dict[str, Callable[[], None]] = {
            "bare": lambda: _bare(connection, table),
            "singly": lambda: _singly(journal, uuid.uuid4().hex),
            "in runs": lambda: _in_runs(journal, uuid.uuid4().hex),
        }
        for _ in range(1 + _ROUNDS):
            for way in _WAYS:
                barrier.wait(_PATIENCE_S)
                ways[way]()
                barrier.wait(_PATIENCE_S)


@contextmanager
def _ending(barrier: Any) -> Iterator[None]:
    """Nobody waits any longer for one that has failed."""
    try:
        yield
    except BaseException:
        barrier.abort()
        raise


def _in_round() -> int:
    """Messages of each worker in a round: some runs."""
    return max(1, _MESSAGES // (_ROUNDS * _RUN)) * _RUN


def _bare(connection: psycopg.Connection[Any], table: str) -> None:
    for _ in range(2 * _in_round()):
        connection.execute(f"UPDATE {table} SET number = number + 1 WHERE id = 1".encode())


def _asked(session: str, first: int, many: int) -> list[WantedMessage]:
    return [WantedMessage(session, number, f"m{number}", _DIGEST) for number in range(first, first + many)]


def _singly(journal: Journal, session: str) -> None:
    for number in range(1, _in_round() + 1):
        (found,) = journal.claim("bench", "status", "a", _asked(session, number, 1), mode="message")
        assert found.claim is not None
        with journal.transaction() as tx:
            tx.complete(found.claim)


def _in_runs(journal: Journal, session: str) -> None:
    for first in range(1, _in_round() + 1, _RUN):
        left = journal.claim("bench", "status", "a", _asked(session, first, _RUN))[0].claim
        while left is not None:
            with journal.transaction() as tx:
                left = tx.complete(left, left.first)


def _sets(journal: Journal) -> Claim:
    """Many sessions in one call, beside one session a call."""
    run = uuid.uuid4().hex
    rows = [one for at in range(_MESSAGES) for one in _asked(f"many {run} {at}", 1, 1)]
    begun = time.perf_counter()
    journal.claim("bench", "status", "a", rows)
    together = len(rows) / (time.perf_counter() - begun)
    begun = time.perf_counter()
    for at in range(_MESSAGES):
        journal.claim("bench", "status", "a", _asked(f"alone {run} {at}", 1, 1))
    alone = _MESSAGES / (time.perf_counter() - begun)
    click.echo(
        f"claims of {len(rows):,} sessions in one call: {together:,.0f} a second; one a call: {alone:,.0f}", err=True
    )
    return Claim("claims in one call ÷ claims in a call each", together / alone, 5)
