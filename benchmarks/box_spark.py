"""Spark to the message box and back, beside what COPY does with the same rows in one process."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
import psycopg
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from benchmarks.feed import shared
from benchmarks.measure import Claim
from benchmarks.used import Used, used
from seriatim import Fifo, MessageBox, MessageType, Queue, Subscription
from seriatim.box.pipelines.feed import PipelineFeed
from seriatim.box.server.embedded import serving

__all__ = ["between"]

_MESSAGES, _GROUPS, _ROUNDS = shared(100_000), 1_000, 3
_INTO, _OUT = ("Spark -> box", "box -> Spark")
#: What the share of the honest ceiling has to be at least, by processor time.
_HONEST = {_INTO: 0.55, _OUT: 0.25}
#: Where a box keeps a published message.
_TABLES = ("message_ids", "spool", "entries")
#: At its commit a transaction numbers what it has said here.
_ARRIVED = """
    INSERT INTO {bare}.arrivals (arrival_id, location, count, queue_ids)
    SELECT arrival_id, location, count, (SELECT array_agg(DISTINCT queue_id) FROM {schema}.entries) FROM {schema}.tickets
"""
_JOIN = """
    SELECT stored.message_id, stored.type, stored.location, stored.epoch, stored.number, stored.received_at, stored.context::text,
        stored.body, entry.group_key, entry.sequence, entry.ordinal, entry.late
    FROM {schema}.entries AS entry JOIN {schema}.stored_messages AS stored USING (arrival_id, position)
    ORDER BY entry.group_key, entry.rank
"""


Connection = psycopg.Connection[Any]
#: The processor time of a connection counts when the server has seen its end.
_SEEN_S = 0.5


@dataclass(frozen=True, slots=True)
class _Measured:
    """The seconds of one way with all messages, and their processor time."""

    seconds: float
    used: Used


def between(spark: SparkSession, root: Path, peers: bool) -> Iterator[Claim]:
    """A hundred thousand messages of 1 KB a batch, beside two ceilings.

    The plain one is COPY of the same columns into a bare table, and out of it. The honest one does what every design has to do that keeps
    ids, order and indexes: COPY into a box's own tables in one transaction, and COPY of the join that a reader needs, in order.

    Out of the box it also measures what a query has of the box, without Spark: a batch is made, and its rows are read.
    """
    with serving(root / "postgres") as server:
        rows = _rows(spark).cache()
        rows.count()
        process = server_process(server.dsn)
        with _without_autovacuum(server.dsn):
            _plain_table(server.dsn, rows)
            found = [_round(spark, server.dsn, process, rows, turn) for turn in range(_ROUNDS + 1)][1:]
        rows.unpersist()
    for way in (_INTO, _OUT):
        for kind, name in (("plain", "COPY of the same rows"), ("honest", "COPY with the box's tables and indexes")):
            pairs = [(one["ours", way], one[kind, way]) for one in found]
            ours, ceiling = pairs[-1]
            costs = ours.used.told(_MESSAGES), ceiling.used.told(_MESSAGES)
            rate = statistics.median(_MESSAGES / ours.seconds for ours, _ in pairs)
            walls = statistics.median(ceiling.seconds / ours.seconds for ours, ceiling in pairs)
            yield Claim(f"{way} ÷ {name}", walls, costs=costs, amount=rate)
            spent = statistics.median(ceiling.used.steady / ours.used.steady for ours, ceiling in pairs)
            yield Claim("the same, by processor time", spent, _HONEST[way] if kind == "honest" else None)
    readers = [(one["reader", _OUT], one["honest", _OUT]) for one in found]
    yield Claim(
        "the reader of box -> Spark, without Spark ÷ COPY with the box's tables and indexes, by processor time",
        statistics.median(ceiling.used.steady / alone.used.steady for alone, ceiling in readers),
        _HONEST[_OUT],
        costs=tuple(one.used.told(_MESSAGES) for one in readers[-1]),
        amount=statistics.median(_MESSAGES / alone.seconds for alone, _ in readers),
    )


@contextmanager
def _without_autovacuum(dsn: str) -> Iterator[None]:
    """It works when it likes, and its processor time would count for whatever is measured then."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET autovacuum = off")
        connection.execute("SELECT pg_reload_conf()")
        try:
            yield
        finally:
            connection.execute("ALTER SYSTEM RESET autovacuum")
            connection.execute("SELECT pg_reload_conf()")


def _round(spark: SparkSession, dsn: str, process: int, rows: DataFrame, turn: int) -> dict[tuple[str, str], _Measured]:
    """Each way by each means, once."""
    found = {}

    def note(kind: str, way: str, one: _Measured) -> None:
        found[kind, way] = one
        click.echo(f"{kind}, {way}: {one.seconds:.1f} s; {one.used.told(_MESSAGES)}", err=True)

    def measured(kind: str, way: str, work: Callable[[], float]) -> None:
        before = used(process)
        seconds = work()
        time.sleep(_SEEN_S)
        spent = used(process) - before
        if kind != "ours":  # Spark does nothing for it, but its idle workers may end meanwhile
            spent = replace(spent, jvm=0.0, python=0.0, compilers=0.0)
        note(kind, way, _Measured(seconds, spent))

    schema, warm, bare = f"bench_{turn}", f"bench_warm_{turn}", f"bench_bare_{turn}"
    with psycopg.connect(dsn, autocommit=True) as connection:
        _make_box(dsn, schema)
        _make_box(dsn, warm)
        _written(dsn, warm, rows)  # starts workers
        measured("ours", _INTO, lambda: _written(dsn, schema, rows))
        measured("plain", _OUT, lambda: _copied_out(connection, "TABLE plain", []))
        _make_box(dsn, bare)
        measured(
            "honest",
            _INTO,
            _copying(
                connection,
                {f"{schema}.{one}": f"{bare}.{one}" for one in _TABLES},
                _ARRIVED.format(bare=bare, schema=schema),
            ),
        )
        measured("honest", _OUT, lambda: _copied_out(connection, _JOIN.format(schema=bare), []))
        connection.execute("CREATE TABLE again (LIKE plain)")
        measured("plain", _INTO, _copying(connection, {"plain": "again"}))
        connection.execute("DROP TABLE again")
        note("ours", _OUT, _read(spark, dsn, schema, process))
        with PipelineFeed(dsn, warm, queue="orders") as feed:
            measured("reader", _OUT, lambda: _taken(feed))
        connection.execute(f"DROP SCHEMA {schema}, {warm}, {bare} CASCADE")
    return found


def _rows(spark: SparkSession) -> DataFrame:
    ids = spark.range(0, _MESSAGES, numPartitions=spark.sparkContext.defaultParallelism)
    random = [F.sha2(F.concat(F.col("id").cast("string"), F.lit(f"-{part}")), 512) for part in range(8)]
    return ids.select(
        F.uuid().alias("message_id"),
        F.lit("order").alias("type"),
        F.concat(F.lit("customer-"), (F.col("id") % _GROUPS).cast("string")).alias("customer"),
        F.concat(*random).cast("binary").alias("body"),
    )


def _plain_table(dsn: str, rows: DataFrame) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS plain, again")
        cursor.execute("CREATE TABLE plain (message_id text, type text, customer text, body bytea)")
        with cursor.copy("COPY plain FROM STDIN") as copy:
            for row in rows.toLocalIterator():
                copy.write_row((row.message_id, row.type, row.customer, bytes(row.body)))


def _copied_out(connection: Connection, query: str, blocks: list[Any]) -> float:
    """The seconds of COPY; puts what comes into `blocks`."""
    began = time.perf_counter()
    with connection.cursor().copy(f"COPY ({query}) TO STDOUT (FORMAT binary)".encode()) as copy:
        blocks += copy
    return time.perf_counter() - began


def _copying(connection: Connection, tables: Mapping[str, str], after: str = "") -> Callable[[], float]:
    """Read tables; the function returns the seconds in which COPY writes what they had into others, in one transaction, and then `after`."""
    found: dict[str, list[Any]] = {table: [] for table in tables}
    for table, blocks in found.items():
        _copied_out(connection, f"TABLE {table}", blocks)

    def work() -> float:
        began = time.perf_counter()
        with connection.transaction(), connection.cursor() as cursor:
            for table, other in tables.items():
                with cursor.copy(f"COPY {other} FROM STDIN (FORMAT binary)".encode()) as copy:
                    for block in found[table]:
                        copy.write(block)
            if after:
                cursor.execute(after.encode())
        return time.perf_counter() - began

    return work


def server_process(dsn: str) -> int:
    """The process of the server that a connection's process was started by."""
    with psycopg.connect(dsn) as connection:
        stat = Path(f"/proc/{connection.info.backend_pid}/stat").read_text()
    return int(stat.rpartition(")")[2].split()[1])


def _make_box(dsn: str, schema: str) -> None:
    with MessageBox.open(dsn, schema=schema) as box:
        box.define(
            MessageType("order", properties={"customer": "string"}),
            Queue("orders", policy=Fifo(), group="customer"),
            Subscription("all-orders", where="type = 'order'", to="orders"),
        )


def _written(dsn: str, schema: str, rows: DataFrame) -> float:
    """The seconds of Spark into a box."""
    began = time.perf_counter()
    rows.write.format("seriatim").option("dsn", dsn).option("schema", schema).mode("append").save()
    return time.perf_counter() - began


def _taken(feed: PipelineFeed) -> float:
    """The seconds of a batch with all messages, and of its rows."""
    properties = feed.properties()
    began = time.perf_counter()
    reader, batch, _ = feed.next("", 0, None)
    rows = sum(rows.num_rows for part in feed.parts(reader, 0, batch) for rows in feed.read(0, batch, part, properties))
    seconds = time.perf_counter() - began
    if rows != _MESSAGES:
        raise RuntimeError(f"{rows:,} of {_MESSAGES:,} messages were read")
    return seconds


def _read(spark: SparkSession, dsn: str, schema: str, process: int) -> _Measured:
    """Spark out of a queue of a box in two batches. The first pays for the start of the query and of its workers; the second counts, twice,
    with the end of the first: so it is in each batch of a query that goes on.
    """
    source = spark.readStream.format("seriatim").option("dsn", dsn).option("schema", schema).option("queue", "orders")
    with TemporaryDirectory() as folder:
        frame = source.option("maxMessagesPerTrigger", _MESSAGES // 2).load()
        writer = frame.writeStream.format("noop").option("checkpointLocation", folder)
        query = writer.trigger(processingTime="0 seconds").start()
        first = _batch(query, 1)
        before = used(process)
        second = _batch(query, 2)
        query.processAllAvailable()  # The box deletes the messages of the first batch.
        spent = used(process) - before
        query.stop()
    if first["numInputRows"] + second["numInputRows"] != _MESSAGES:
        raise RuntimeError(
            f"{first['numInputRows']:,} and {second['numInputRows']:,} of {_MESSAGES:,} messages were read"
        )
    return _Measured(2 * second["durationMs"]["triggerExecution"] / 1000, Used(*(2 * one for one in astuple(spent))))


def _batch(query: StreamingQuery, number: int) -> Any:
    """The batch of that number with messages, from 1, when it is done."""
    while len(done := [one for one in query.recentProgress if one["numInputRows"]]) < number:
        if query.awaitTermination(0.05):
            raise RuntimeError(f"the query has ended: {query.exception()}")
    return done[number - 1]
