"""Run the benchmarks of `resequence` and print ratios, a table and JSON.

Same source (Parquet), same sink (Parquet), same number of partitions for all; the times are Spark's own for each
micro-batch, the first ones left out, the median of the rest taken.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from pyspark.sql import DataFrame, SparkSession
from rich.console import Console
from rich.table import Table

from benchmarks.feed import SCHEMA, Feed, Part, make_feed
from benchmarks.peer import by_group
from seriatim import Standard
from seriatim.spark import resequence
from seriatim.spark.session import open_session

#: Everything on: time-outs with retries, skipping, late ones delivered, a capacity.
EVERYTHING = Standard(hole_timeout="1h", hole_retries=1, on_hole="skip", late="deliver", capacity=500_000)

MANY = Feed("many", (Part(7, 1_000_000, 100_000),))
SINGLE = Feed("single", (Part(7, 1_000_000, 1),))
SMALL = Feed("small", (Part(16, 1_000, 1_000, displaced=0.05),), files=2)
OTHERS = Part(8, 100_000, 10_000)
PLAIN = Feed("plain", (OTHERS,))
IDLE = Feed("idle", (Part(1, 1_000_000, 1_000_000, prefix="idle-", displaced=0), OTHERS))
BACKLOG = Feed("backlog", (Part(1, 200_000, 1, prefix="stuck-", displaced=0, first=2), OTHERS))


@dataclass(frozen=True, slots=True)
class Timing:
    """The seconds of the steady micro-batches, and the messages in each."""

    name: str
    seconds: list[float]
    messages: int

    @property
    def median(self) -> float:
        """Seconds of a typical batch."""
        return statistics.median(self.seconds)

    @property
    def rate(self) -> float:
        """Messages a second."""
        return self.messages / self.median


def identity(source: DataFrame) -> DataFrame:
    """The ceiling: the same shuffle, and Python that does nothing."""
    partitions = int(source.sparkSession.conf.get("spark.sql.shuffle.partitions"))

    def same(batches: Iterator[Any]) -> Iterator[Any]:
        yield from batches

    return source.repartition(partitions, "customer").mapInArrow(same, source.schema)


def ordered(source: DataFrame) -> DataFrame:
    """Ours."""
    return resequence(source, group="customer", sequence="version", policy=EVERYTHING)


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
    seen: dict[int, Any] = {}
    try:
        while sum(bool(p["numInputRows"]) for p in seen.values()) < feed.batches:
            if query.exception() is not None:
                raise query.exception()  # type: ignore[misc]
            seen |= {p["batchId"]: p for p in query.recentProgress if p["numInputRows"]}
            query.awaitTermination(0.1)
    finally:
        query.stop()
        shutil.rmtree(work, ignore_errors=True)
    steady = [seen[batch] for batch in sorted(seen)][skip:]
    seconds = [p["durationMs"]["triggerExecution"] / 1000 for p in steady]
    timing = Timing(name, seconds, steady[-1]["numInputRows"])
    click.echo(
        f"{name}: {timing.rate:,.0f} messages/s, batches of {', '.join(f'{s:.2f}' for s in seconds)} s", err=True
    )
    return timing


@dataclass(frozen=True, slots=True)
class Claim:
    """A ratio, and what it has to be."""

    what: str
    ratio: float
    limit: float
    least: bool

    @property
    def holds(self) -> bool:
        """Whether it is."""
        return self.ratio >= self.limit if self.least else self.ratio <= self.limit


def throughput(spark: SparkSession, root: Path, peers: bool) -> Iterator[Claim]:
    """A million messages a batch."""
    ceiling = measure(spark, root, MANY, identity, "identity, 1,000,000 a batch, 100,000 groups")
    ours = measure(spark, root, MANY, ordered, "seriatim, the same")
    yield Claim("Standard with everything on ÷ identity mapInArrow", ours.rate / ceiling.rate, 0.5, True)
    single = measure(spark, root, SINGLE, ordered, "seriatim, one single group")
    yield Claim("one single group ÷ many groups", single.rate / ours.rate, 0.35, True)
    if peers:
        textbook = measure(spark, root, MANY, by_group, "transformWithState keyed by group, the textbook way")
        yield Claim("Standard with everything on ÷ textbook TWS by group", ours.rate / textbook.rate, 10, True)


def small(spark: SparkSession, root: Path, peers: bool) -> Iterator[Claim]:
    """A thousand messages a batch."""
    ceiling = measure(spark, root, SMALL, identity, "identity, 1,000 a batch", skip=4)
    ours = measure(spark, root, SMALL, ordered, "seriatim, 1,000 a batch", skip=4)
    yield Claim("time of a batch of 1,000 ÷ identity", ours.median / ceiling.median, 2.5, False)


def state(spark: SparkSession, root: Path, peers: bool) -> Iterator[Claim]:
    """What a large state costs those that don't use it."""
    measure(spark, root, PLAIN, ordered, "warm-up")  # else the first of the three pays for the JVM's compiler
    plain = measure(spark, root, PLAIN, ordered, "seriatim, 100,000 a batch, 10,000 groups", skip=3)
    idle = measure(spark, root, IDLE, ordered, "the same beside 1,000,000 idle groups", skip=3)
    backlog = measure(spark, root, BACKLOG, ordered, "the same beside a group that holds 200,000", skip=3)
    yield Claim("time beside a million idle groups ÷ without them", idle.median / plain.median, 1.3, False)
    yield Claim("time beside a backlog of 200,000 ÷ without it", backlog.median / plain.median, 1.3, False)


PARTS = {"throughput": throughput, "small": small, "state": state}


@click.command
@click.argument("parts", nargs=-1, type=click.Choice(sorted(PARTS)))
@click.option("--data", type=click.Path(path_type=Path), default=Path(".bench"), help="Where feeds are kept.")
@click.option("--json", "report", type=click.Path(path_type=Path), help="Also write the ratios there.")
@click.option("--peers/--no-peers", default=True, help="With the textbook peer, which takes a quarter of an hour.")
def main(parts: tuple[str, ...], data: Path, report: Path | None, peers: bool) -> None:
    """Measure PARTS (default: all) and print ratios, a table and JSON."""
    root = data.absolute()
    root.mkdir(parents=True, exist_ok=True)
    cores = os.cpu_count() or 2
    spark = open_session({"spark.master": f"local[{cores}]", "spark.sql.shuffle.partitions": str(cores)})
    claims = [claim for part in parts or sorted(PARTS) for claim in PARTS[part](spark, root, peers)]
    table = Table("what", "ratio", "has to be", title=f"resequence on {cores} cores")
    for claim in claims:
        table.add_row(claim.what, f"{claim.ratio:.2f}", f"{'≥' if claim.least else '≤'} {claim.limit:g}")
    Console().print(table)
    facts = [{"what": c.what, "ratio": round(c.ratio, 3), "limit": c.limit, "holds": c.holds} for c in claims]
    document = json.dumps({"cores": cores, "ratios": facts}, indent=2, ensure_ascii=False)
    click.echo(document)
    if report is not None:
        report.write_text(document + "\n", encoding="utf-8")
    spark.stop()


if __name__ == "__main__":
    main()
