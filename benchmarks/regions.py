"""Claims of the journal of two regions beside bare single-row commits, with fsync on.

A message that is claimed singly takes two commits: the claim and the completion. So it is measured beside two bare ones, of a row of the same size. In a
run of several messages the claim is shared.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import click
import psycopg

from benchmarks.measure import Claim
from seriatim.box.server.embedded import EmbeddedServer
from seriatim.regions.journal.journal import Journal
from seriatim.regions.journal.values import Asked, QueueRules

__all__ = ["claiming"]

_MESSAGES = int(os.environ.get("SERIATIM_BENCH_REGIONS", "2000"))
_RUN = 10
_THREADS = 4
_DIGEST = bytes(32)


def claiming(root: Path, peers: bool) -> Iterator[Claim]:
    """Half a minute."""
    del peers
    server = EmbeddedServer(root / "postgres-regions")
    try:
        click.echo(f"PostgreSQL embedded, fsync on; load of the machine {os.getloadavg()[0]:.1f}", err=True)
        with Journal.open(server.dsn, connections=2 * _THREADS) as journal:
            journal.define("bench", "status", QueueRules())
            for threads in (1, _THREADS):
                yield from _rates(server.dsn, journal, threads)
            yield _sets(journal)
    finally:
        server.close()


def _rates(dsn: str, journal: Journal, threads: int) -> Iterator[Claim]:
    told = "one worker" if threads == 1 else f"{threads} workers"
    bare = _rate(threads, lambda place: _bare(dsn, place))
    singly = _rate(threads, lambda _: _singly(journal, uuid.uuid4().hex))
    in_runs = _rate(threads, lambda _: _in_runs(journal, uuid.uuid4().hex))
    click.echo(
        f"{told}: two bare commits {bare:,.0f} times a second, {singly:,.0f} messages claimed singly, {in_runs:,.0f} in runs of {_RUN}",
        err=True,
    )
    yield Claim(f"messages claimed singly ÷ two bare commits, {told}", singly / bare, 0.5)
    yield Claim(f"messages claimed in runs of {_RUN} ÷ two bare commits, {told}", in_runs / bare, None)


def _rate(threads: int, work: Callable[[int], None]) -> float:
    begun = time.perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        for done in [pool.submit(work, place) for place in range(threads)]:
            done.result()
    return _MESSAGES * threads / (time.perf_counter() - begun)


def _bare(dsn: str, place: int) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        table = f"bare_{place}"
        connection.execute(
            f"CREATE TABLE IF NOT EXISTS {table} (id int PRIMARY KEY, number bigint, told text)".encode()
        )
        connection.execute(f"INSERT INTO {table} VALUES (1, 0, repeat('x', 200)) ON CONFLICT DO NOTHING".encode())
        for _ in range(2 * _MESSAGES):
            connection.execute(f"UPDATE {table} SET number = number + 1 WHERE id = 1".encode())


def _asked(session: str, first: int, many: int) -> list[Asked]:
    return [Asked(session, number, f"m{number}", _DIGEST) for number in range(first, first + many)]


def _singly(journal: Journal, session: str) -> None:
    for number in range(1, _MESSAGES + 1):
        (found,) = journal.claim("bench", "status", "a", _asked(session, number, 1), mode="message")
        assert found.claim is not None
        with journal.transaction() as tx:
            tx.complete(found.claim)


def _in_runs(journal: Journal, session: str) -> None:
    for first in range(1, _MESSAGES + 1, _RUN):
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
