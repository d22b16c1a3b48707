"""Spark to the message box and back, beside what COPY does with the same rows in one process."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.feed import shared
from benchmarks.measure import Claim
from benchmarks.used import Used, used
from seriatim import Fifo, MessageBox, MessageType, Queue, Subscription
from seriatim.box.server.embedded import serving

__all__ = ["between"]

_MESSAGES, _GROUPS, _ROUNDS = shared(100_000), 1_000, 3
_INTO, _OUT = ("Spark -> box", "box -> Spark")
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
    """
    with serving(root / "postgres") as server:
        rows = _rows(spark).cache()
        rows.count()
        process = _server(server.dsn)
        _plain_table(server.dsn, rows)
        found = [_round(spark, server.dsn, process, rows, turn) for turn in range(_ROUNDS + 1)][1:]
        rows.unpersist()
    for way in (_INTO, _OUT):
        ours, plain, honest = (_typical([one[kind, way] for one in found]) for kind in ("ours", "plain", "honest"))
        for name, ceiling in (("COPY of the same rows", plain), ("COPY with the box's tables and indexes", honest)):
            costs = ours.used.told(_MESSAGES), ceiling.used.told(_MESSAGES)
            yield Claim(f"{way} ÷ {name}", ceiling.seconds / ours.seconds, costs=costs, amount=_MESSAGES / ours.seconds)
            yield Claim("the same, by processor time", ceiling.used.steady / ours.used.steady)


def _typical(of: list[_Measured]) -> _Measured:
    """The one of median seconds."""
    return sorted(of, key=lambda one: one.seconds)[len(of) // 2]


def _round(spark: SparkSession, dsn: str, process: int, rows: DataFrame, turn: int) -> dict[tuple[str, str], _Measured]:
    """Each way by each means, once."""
    found = {}

    def measured(kind: str, way: str, work: Callable[[], float]) -> None:
        before = used(process)
        seconds = work()
        time.sleep(_SEEN_S)
        found[kind, way] = _Measured(seconds, used(process) - before)

    schema, bare = f"bench_{turn}", f"bench_bare_{turn}"
    with psycopg.connect(dsn, autocommit=True) as connection:
        _make_box(dsn, schema)
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
        measured("ours", _OUT, lambda: _read(spark, dsn, schema))
        connection.execute(f"DROP SCHEMA {schema}, {bare} CASCADE")
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


def _server(dsn: str) -> int:
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


def _read(spark: SparkSession, dsn: str, schema: str) -> float:
    """The seconds of Spark out of a queue of a box."""
    source = spark.readStream.format("seriatim").option("dsn", dsn).option("schema", schema).option("queue", "orders")
    with TemporaryDirectory() as folder:
        frame = source.option("maxMessagesPerTrigger", _MESSAGES).load()
        writer = frame.writeStream.format("noop").option("checkpointLocation", folder)
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        batches = [one for one in query.recentProgress if one["numInputRows"]]
    read = sum(one["numInputRows"] for one in batches)
    if read != _MESSAGES:
        raise RuntimeError(f"{read:,} of {_MESSAGES:,} messages were read")
    return sum(one["durationMs"]["triggerExecution"] for one in batches) / 1000
