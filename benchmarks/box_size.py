"""What five million processed messages in a box cost those that are published and received after them.

Two boxes on one PostgreSQL, in a database each: an empty one, and one with that many rows in the spool, the history, the
ids and the tickets. The rows are made by SQL, into the tables that publishing and completing write, with bodies of 1,024
bytes, over ten days and as many groups as the load has; then they are counted. The same processes load both boxes in
turn, a second each, again and again, so that whatever else the machine does slows both: they publish some messages of a
group in a transaction, and receive and complete as many in another. Then once more while a transaction is held open that
has read both boxes before (REPEATABLE READ), so that nothing that goes can be vacuumed. Each time both begin vacuumed.

The ratio is the median of those of neighbouring seconds. Beside it: the ratio of the processor time for a message, of
clients and server, which a busy machine disturbs less.
"""

from __future__ import annotations

import itertools
import math
import os
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click
import psycopg
from psycopg import IsolationLevel, sql

from benchmarks.measure import Claim
from seriatim import Fifo, Message, MessageBox, MessageType, Queue, Subscription
from seriatim.box.server.embedded import serving
from seriatim.operations import retention

__all__ = ["sizes"]

#: The schema of both boxes.
_BOX = "seriatim"
_QUEUE, _TYPE, _GROUP = "orders", "order", "customer"
_GROUPS, _BODY, _DAYS = 1_000, 1_024, 10
_LOADERS = 2
_RUNS = (1, 50)
_LEAST = 0.9
_FILL_BATCH = 100_000
_START_S = 60
#: Not forked: see `benchmarks.race`.
_PROCESSES = get_context("spawn")
_TABLES = ("spool", "history", "message_ids", "tickets")


@dataclass(frozen=True, slots=True)
class _Rate:
    """Messages of both boxes for each pair of neighbouring seconds, and processor seconds for all of them."""

    empty: list[int]
    full: list[int]
    cpu_empty: float
    cpu_full: float

    @property
    def ratio(self) -> float:
        """How many messages of the full box come on one of the empty one."""
        return statistics.median(full / max(empty, 1) for empty, full in zip(self.empty, self.full, strict=True))

    @property
    def by_cpu(self) -> float:
        """The same by processor time."""
        return (self.cpu_empty / sum(self.empty)) / (self.cpu_full / sum(self.full))


def sizes(root: Path, peers: bool, rows: int = 5_000_000, pairs: int = 40) -> Iterator[Claim]:
    """Fill a box with so many processed messages, and measure it beside an empty one, about a quarter of an hour."""
    with serving(root / "postgres") as server, ExitStack() as databases:
        empty, full = (databases.enter_context(_database(server.dsn, name)) for name in ("empty", "full"))
        for dsn in (empty, full):
            _prepare(dsn)
        _fill(full, rows)
        yield from _measured(empty, full, pairs)
        _tell_counts(full)


def _measured(empty: str, full: str, pairs: int) -> Iterator[Claim]:
    free, held = {}, {}
    for run in _RUNS:
        _vacuum(empty, full)
        free[run] = _loaded(empty, full, run, pairs)
    for run in _RUNS:
        _vacuum(empty, full)
        with _snapshot(empty), _snapshot(full):
            held[run] = _loaded(empty, full, run, pairs)
    for run in _RUNS:
        for rate, how in ((free[run], ""), (held[run], ", a transaction held open")):
            what = f"{run} a transaction, in and out: box with processed messages ÷ empty box{how}"
            yield Claim(what, rate.ratio, _LEAST)
            yield Claim(f"{what}, by processor time", rate.by_cpu)
        ratio = statistics.median(held[run].full) / statistics.median(free[run].empty)
        yield Claim(f"{run} a transaction: full box, a transaction held open ÷ empty box without one", ratio)


def _vacuum(*databases: str) -> None:
    """Have all begin alike: which of them was vacuumed last is chance, and decides where nothing can be."""
    for dsn in databases:
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("VACUUM ANALYZE")
            connection.execute("CHECKPOINT")


@contextmanager
def _database(server: str, name: str) -> Iterator[str]:
    """A database of its own, gone afterwards."""
    identifier = sql.Identifier(f"size_{name}")
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(identifier))
        connection.execute(sql.SQL("CREATE DATABASE {}").format(identifier))
        try:
            yield urlsplit(server)._replace(path=f"/size_{name}").geturl()
        finally:
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(identifier))


def _prepare(dsn: str) -> None:
    with MessageBox.open(dsn) as box:
        box.define(
            MessageType(_TYPE, properties={_GROUP: "string"}),
            Queue(_QUEUE, policy=Fifo(), group=_GROUP, keep="everything"),
            Subscription("all-orders", where=f"type = '{_TYPE}'", to=_QUEUE),
        )
        retention.purge(box)  # makes the days of the history


def _fill(dsn: str, rows: int) -> None:
    """Processed messages, one a transaction: as if they had come in over the last days, and were done at once."""
    began = time.perf_counter()
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(sql.SQL("SET search_path = {}").format(sql.Identifier(_BOX)))
        connection.execute("SET synchronous_commit = off")  # while it is filled
        past = "SELECT add_history_day((now() AT TIME ZONE 'UTC')::date - ago) FROM generate_series(1, %s) AS ago"
        connection.execute(past, [_DAYS])
        connection.execute("INSERT INTO locations (location) VALUES ('box') ON CONFLICT DO NOTHING")
        for first in range(1, rows + 1, _FILL_BATCH):
            last = min(rows, first + _FILL_BATCH - 1)
            parameters = {"first": first, "last": last, "rows": rows, "days": _DAYS, "groups": _GROUPS}
            for statement in _FILLING:
                connection.execute(statement, parameters)
        for sequence in ("arrival_ids", "entry_ids", "stamps"):
            connection.execute("SELECT setval(%s, %s)", [sequence, rows])
    click.echo(f"filled by SQL in {time.perf_counter() - began:,.0f} s", err=True)
    _tell_counts(dsn)


_MOMENT = "now() - make_interval(secs => 86400.0 * %(days)s * (1 - i::float8 / %(rows)s))"
#: One number is a message of one arrival, in one group in turn.
_FILLING = (
    f"""
    INSERT INTO spool (arrival_id, position, message_id, type, context, body, received_at, destinations)
    SELECT i, 0, 'filled-' || i, '{_TYPE}', jsonb_build_object('{_GROUP}', 'g' || to_char(i %% %(groups)s, 'FM0000')),
        decode(repeat(encode(sha512(int8send(i)), 'hex'), {_BODY // 64}), 'hex'), {_MOMENT}, 1
    FROM generate_series(%(first)s::bigint, %(last)s) AS i
    """,
    f"""
    INSERT INTO history (
        entry_id, queue_id, group_key, incarnation, ordinal, late, arrival_id, position, subscription_ids, attempt, done_at
    )
    SELECT i, 1, 'g' || to_char(i %% %(groups)s, 'FM0000'), 0, i / %(groups)s + 1, FALSE, i, 0, ARRAY[1], 0, {_MOMENT}
    FROM generate_series(%(first)s::bigint, %(last)s) AS i
    """,
    f"""
    INSERT INTO message_ids (message_id, published_at)
    SELECT 'filled-' || i, {_MOMENT} FROM generate_series(%(first)s::bigint, %(last)s) AS i
    """,
    """
    INSERT INTO tickets (location, epoch, number, count, arrival_id, stamp)
    SELECT 'box', 0, i, 1, i, i FROM generate_series(%(first)s::bigint, %(last)s) AS i
    """,
)


def _tell_counts(dsn: str) -> None:
    """Counted, row by row."""
    with psycopg.connect(dsn) as connection:
        counts = []
        for name in _TABLES:
            counted = sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(_BOX, name))
            counts.append(f"{connection.execute(counted).fetchall()[0][0]:,} in {name}")
        (size,) = connection.execute("SELECT pg_database_size(current_database())").fetchall()[0]
    click.echo(f"counted: {', '.join(counts)}; {size / 2**30:.1f} GiB", err=True)


@contextmanager
def _snapshot(dsn: str) -> Iterator[None]:
    """A transaction held open, that has read the box and goes on seeing what it saw."""
    with psycopg.connect(dsn) as connection:
        connection.isolation_level = IsolationLevel.REPEATABLE_READ
        connection.execute(sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(_BOX, "entries")))
        yield
        connection.rollback()


def _loaded(empty: str, full: str, run: int, pairs: int) -> _Rate:
    """Both boxes in turn, a second each; the first pair is not counted."""
    slices = 2 * (pairs + 1)
    ready: Any = _PROCESSES.Barrier(_LOADERS + 1)
    begin: Any = _PROCESSES.RawValue("d", 0)
    counts: Any = _PROCESSES.RawArray("q", _LOADERS * slices)
    cpu: Any = _PROCESSES.RawArray("d", _LOADERS * slices)
    loaders = [
        _PROCESSES.Process(target=_load, args=((empty, full), place, run, slices, ready, begin, counts, cpu))
        for place in range(_LOADERS)
    ]
    for process in loaders:
        process.start()
    begin.value = math.inf
    ready.wait(_START_S)
    begin.value = time.monotonic() + 0.2
    for process in loaders:
        process.join()
    if any(process.exitcode for process in loaders):
        raise click.ClickException("a process of the load has failed")
    both = [sum(counts[at::slices]) for at in range(2, slices)]
    rate = _Rate(
        both[::2],
        both[1::2],
        *(sum(cpu[at] for at in range(len(cpu)) if at % slices >= 2 and at % 2 == side) for side in (0, 1)),
    )
    click.echo(
        f"{run} a transaction: empty {statistics.median(rate.empty):,}/s, full {statistics.median(rate.full):,}/s, "
        f"first and last ten of both {_ends(rate.empty)}, {_ends(rate.full)} (load {os.getloadavg()[0]:.1f})",
        err=True,
    )
    return rate


def _ends(counts: Sequence[int]) -> str:
    return f"{statistics.median(counts[:10]):,.0f} → {statistics.median(counts[-10:]):,.0f}"


def _load(
    boxes: tuple[str, str], place: int, run: int, slices: int, ready: Any, begin: Any, counts: Any, cpu: Any
) -> None:
    """One process: publish, receive, complete, again and again, in the box whose second it is."""
    groups = itertools.cycle(range(place, _GROUPS, _LOADERS))
    with ExitStack() as opened:
        both = [opened.enter_context(MessageBox.open(dsn)) for dsn in boxes]
        for box in both:
            _once(box, f"g{next(groups):04}", run)  # makes the connection
        ready.wait(_START_S)
        while begin.value > time.monotonic():
            time.sleep(0.001)
        while (at := int(time.monotonic() - begin.value)) < slices:
            count, used = _once(both[at % 2], f"g{next(groups):04}", run)
            counts[place * slices + at] += count
            cpu[place * slices + at] += used


def _once(box: MessageBox, group: str, run: int) -> tuple[int, float]:
    """Some messages in and out; how many, and processor seconds of client and server."""
    before = time.process_time()
    with box.session() as tx:
        backend = tx.connection.info.backend_pid
        server = _server_seconds(backend)
        tx.publish([Message(type=_TYPE, body=os.urandom(_BODY), context={_GROUP: group}) for _ in range(run)])
    with box.session() as tx:
        count = len(list(tx.receive(_QUEUE, limit=run) or ()))
    used = time.process_time() - before
    return count, used + _server_seconds(backend) - server


def _server_seconds(backend: int) -> float:
    """Processor seconds that a backend has used; 0 where the system doesn't tell."""
    try:
        nanoseconds = Path(f"/proc/{backend}/schedstat").read_text(encoding="ascii").split()[0]
    except OSError:
        return 0.0
    return int(nanoseconds) / 1e9
