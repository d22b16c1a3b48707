"""Spark to the message box and back, beside what COPY does with the same rows in one process."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import click
import psycopg
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.measure import Claim
from seriatim import Fifo, MessageBox, MessageType, Queue, Subscription
from seriatim.box.server.embedded import serving

__all__ = ["between"]

_MESSAGES, _GROUPS, _ROUNDS = 100_000, 1_000, 3


def between(spark: SparkSession, root: Path, peers: bool) -> Iterator[Claim]:
    """A hundred thousand messages of 1 KB a batch."""
    with serving(root / "postgres") as server:
        rows = _rows(spark).cache()
        rows.count()
        copied = [_copied(server.dsn, rows if not turn else None) for turn in range(_ROUNDS)]
        into, out = zip(*[_through(spark, server.dsn, rows, turn) for turn in range(_ROUNDS + 1)][1:], strict=True)
        rows.unpersist()
    for what, ours, bare in (
        ("Spark -> box", into, [one[0] for one in copied]),
        ("box -> Spark", out, [one[1] for one in copied]),
    ):
        rate, ceiling = statistics.median(ours), statistics.median(bare)
        click.echo(f"{what}: {rate:,.0f} messages/s, COPY {ceiling:,.0f}", err=True)
        yield Claim(f"{what} ÷ COPY of the same rows", rate / ceiling)


def _rows(spark: SparkSession) -> DataFrame:
    ids = spark.range(0, _MESSAGES, numPartitions=spark.sparkContext.defaultParallelism)
    random = [F.sha2(F.concat(F.col("id").cast("string"), F.lit(f"-{part}")), 512) for part in range(8)]
    return ids.select(
        F.uuid().alias("message_id"),
        F.lit("order").alias("type"),
        F.concat(F.lit("customer-"), (F.col("id") % _GROUPS).cast("string")).alias("customer"),
        F.concat(*random).cast("binary").alias("body"),
    )


def _copied(dsn: str, rows: DataFrame | None) -> tuple[float, float]:
    """Messages a second into a table and out of it; the first time the rows are put there."""
    with psycopg.connect(dsn, autocommit=True) as connection, connection.cursor() as cursor:
        if rows is not None:
            cursor.execute("DROP TABLE IF EXISTS plain, again")
            cursor.execute("CREATE TABLE plain (message_id text, type text, customer text, body bytea)")
            with cursor.copy("COPY plain FROM STDIN") as copy:
                for row in rows.toLocalIterator():
                    copy.write_row((row.message_id, row.type, row.customer, bytes(row.body)))
        began = time.perf_counter()
        with cursor.copy("COPY plain TO STDOUT (FORMAT binary)") as copy:
            blocks = list(copy)
        out = time.perf_counter() - began
        cursor.execute("CREATE TABLE again (LIKE plain)")
        began = time.perf_counter()
        with cursor.copy("COPY again FROM STDIN (FORMAT binary)") as copy:
            for block in blocks:
                copy.write(block)
        into = time.perf_counter() - began
        cursor.execute("DROP TABLE again")
    return _MESSAGES / into, _MESSAGES / out


def _through(spark: SparkSession, dsn: str, rows: DataFrame, turn: int) -> tuple[float, float]:
    """Messages a second into a box of its own, and out of a queue of it."""
    schema = f"bench_{turn}"
    with MessageBox.open(dsn, schema=schema) as box:
        box.define(
            MessageType("order", properties={"customer": "string"}),
            Queue("orders", policy=Fifo(), group="customer"),
            Subscription("all-orders", where="type = 'order'", to="orders"),
        )
    began = time.perf_counter()
    rows.write.format("seriatim").option("dsn", dsn).option("schema", schema).mode("append").save()
    into = time.perf_counter() - began
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
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA {schema} CASCADE")
    return _MESSAGES / into, read / (sum(one["durationMs"]["triggerExecution"] for one in batches) / 1000)
