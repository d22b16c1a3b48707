"""Routing alone: what thousands of subscriptions cost beside a few."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.measure import Claim
from seriatim import Subscription
from seriatim.spark import route

__all__ = ["filtering"]

MESSAGES = 1_000_000
FEW, MANY = 10, 10_000
_WARM_UP, _ROUNDS = 3, 7


def messages(spark: SparkSession, root: Path) -> DataFrame:
    """Orders of 10,000 customers in 10 regions, with bodies of 192 bytes, as files; the same at every run."""
    folder = root / "filters"
    if not (folder / "_SUCCESS").exists():
        made = spark.range(0, MESSAGES, 1, 2).select(
            F.col("id").alias("message_id"),
            F.concat(F.lit("customer-"), F.pmod(F.xxhash64("id"), F.lit(MANY)).cast("string")).alias("customer"),
            F.concat(F.lit("region-"), F.pmod(F.xxhash64("id"), F.lit(FEW)).cast("string")).alias("region"),
            (F.pmod(F.xxhash64("id", F.lit(1)), F.lit(100_000)) / 100).cast("decimal(12,2)").alias("amount"),
            F.repeat(F.sha2(F.col("id").cast("string"), 256), 3).alias("body"),
        )
        made.write.mode("overwrite").parquet(str(folder))
    return spark.read.parquet(str(folder))


def subscriptions(count: int, by: str) -> list[Subscription]:
    """A subscription for every value of the property `by`: a message goes to one destination, or to none."""
    return [
        Subscription(f"s{n}", f"{by} = '{by}-{n}' AND amount >= {n % 100}.50", f"destination-{n}") for n in range(count)
    ]


def rate(df: DataFrame, chosen: Sequence[Subscription]) -> float:
    """Messages a second, the median of a few rounds after those that warm up; nothing is written."""
    routed = route(df, chosen)
    times = []
    for _ in range(_WARM_UP + _ROUNDS):
        begun = time.perf_counter()
        routed.write.format("noop").mode("overwrite").save()
        times.append(time.perf_counter() - begun)
    seconds = statistics.median(times[_WARM_UP:])
    click.echo(f"{len(chosen):,} subscriptions: {MESSAGES / seconds:,.0f} messages/s", err=True)
    return MESSAGES / seconds


def filtering(spark: SparkSession, root: Path, peers: bool) -> Iterator[Claim]:
    """A million messages, each of which one subscription at most wants."""
    df = messages(spark, root)
    few = rate(df, subscriptions(FEW, "region"))
    many = rate(df, subscriptions(MANY, "customer"))
    yield Claim(f"route with {MANY:,} subscriptions ÷ with {FEW}", many / few, 0.5)
