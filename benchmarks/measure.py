"""Measuring one query over one feed, and what is claimed of two measurements."""

from __future__ import annotations

import shutil
import statistics
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from benchmarks.feed import SCHEMA, Feed, make_feed
from benchmarks.used import Used, used

__all__ = ["Claim", "Timing", "identity", "measure", "timed"]


@dataclass(frozen=True, slots=True)
class Timing:
    """The seconds of the steady micro-batches, the messages in each, and what 100,000 messages cost, as `Used.told` and in seconds of processor time."""

    name: str
    seconds: list[float]
    messages: int
    cost: str
    processor_s: float = 0.0

    @property
    def median(self) -> float:
        """Seconds of a typical batch."""
        return statistics.median(self.seconds)

    @property
    def rate(self) -> float:
        """Messages a second."""
        return self.messages / self.median


@dataclass(frozen=True, slots=True)
class Claim:
    """A ratio, and what it has to be; without a limit it is only told."""

    what: str
    ratio: float
    limit: float | None = None
    least: bool = True
    #: The processor time of both, as `Used.told` says it.
    costs: tuple[str, ...] = ()
    #: What seriatim did, in `unit`; None: the ratio says it all.
    amount: float | None = None
    unit: str = "messages/s"


def identity(source: DataFrame) -> DataFrame:
    """The ceiling: the same shuffle, and Python that does nothing."""
    partitions = int(source.sparkSession.conf.get("spark.sql.shuffle.partitions"))

    def same(batches: Iterator[Any]) -> Iterator[Any]:
        yield from batches

    return source.repartition(partitions, "customer").mapInArrow(same, source.schema)


def measure(
    spark: SparkSession, root: Path, feed: Feed, build: Callable[[DataFrame], DataFrame], name: str, skip: int = 1
) -> Timing:
    """Runs a query over a feed, a micro-batch at a time; leaves the first `skip` batches out."""
    folder = make_feed(feed, root)
    work = Path(tempfile.mkdtemp(dir=root))
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", feed.files)
    frame = build(reader.parquet(f"{folder}/*.parquet"))
    query = (
        frame.writeStream.format("parquet")
        .option("path", str(work / "out"))
        .option("checkpointLocation", str(work / "checkpoint"))
        .trigger(processingTime="0 seconds")
        .start()
    )
    try:
        return timed(query, feed.batches, name, skip)
    finally:
        query.stop()
        shutil.rmtree(work, ignore_errors=True)


def timed(query: StreamingQuery, batches: int, name: str, skip: int = 1) -> Timing:
    """Waits until a query has done so many micro-batches with messages; leaves the first `skip` out."""
    seen: dict[int, Any] = {}
    costs: dict[int, Used] = {}
    while sum(bool(p["numInputRows"]) for p in seen.values()) < batches:
        if query.exception() is not None:
            raise query.exception()  # type: ignore[misc]
        seen |= {p["batchId"]: p for p in query.recentProgress if p["numInputRows"]}
        costs.setdefault(len(seen), used())
        query.awaitTermination(0.1)
    costs.setdefault(len(seen), used())
    steady = [seen[batch] for batch in sorted(seen)][skip:]
    begun = min(number for number in costs if number >= skip)
    messages = sum(seen[batch]["numInputRows"] for batch in sorted(seen)[begun:])
    seconds = [p["durationMs"]["triggerExecution"] / 1000 for p in steady]
    spent = costs[len(seen)] - costs[begun]
    cost = spent.told(messages) if messages else ""
    processor_s = spent.steady * 100_000 / messages if messages else 0.0
    timing = Timing(name, seconds, steady[-1]["numInputRows"], cost, processor_s)
    click.echo(
        f"{name}: {timing.rate:,.0f} messages/s, batches of {', '.join(f'{s:.2f}' for s in seconds)} s; {cost}",
        err=True,
    )
    return timing
