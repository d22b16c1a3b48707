"""What stamping costs: one location, whose messages one task has to number, and 16, which the tasks share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.feed import Feed, Part
from benchmarks.measure import Claim, identity, measure
from seriatim.spark import stamp

__all__ = ["stamping"]

ONE = Feed("single", (Part(7, 1_000_000, 1),))
SIXTEEN = Feed("locations", (Part(7, 1_000_000, 16),))


def stamped(source: DataFrame) -> DataFrame:
    """Each customer a location; messages arrive in order of their versions."""
    return stamp(source, F.col("customer"), order_by="version")


def stamping(spark: SparkSession, root: Path, peers: bool) -> Iterator[Claim]:
    """A million messages a batch."""
    for feed, locations in ((ONE, "one location"), (SIXTEEN, "16 locations")):
        ceiling = measure(spark, root, feed, identity, f"identity, {locations}")
        ours = measure(spark, root, feed, stamped, f"stamp, {locations}")
        costs = ours.cost, ceiling.cost
        yield Claim(
            f"stamp ÷ identity mapInArrow, {locations}", ours.rate / ceiling.rate, costs=costs, amount=ours.rate
        )
