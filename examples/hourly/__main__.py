"""One run of a scheduled job: take in what has come, let leave what can leave in order, and end.

python -m examples.hourly FOLDER [HOLE_TIMEOUT]
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import seriatim as sq
from seriatim.spark import held, resequence


def run(spark: Any, folder: Path, hole_timeout: str = "90m") -> None:
    """Take in the orders in `inbox`, and add those that leave to `ordered`; `checkpoint` knows where the last run ended.

    Args:
        spark: the Spark session.
        folder: where all of that is.
        hole_timeout: how long a missing number is waited for, over as many runs as that takes.
    """
    came = spark.readStream.schema("customer STRING, number BIGINT, item STRING").json(str(folder / "inbox"))
    policy = sq.Standard(hole_timeout=hole_timeout, on_hole="skip")
    ordered = resequence(came, policy, group="customer", sequence="number")
    query = (
        ordered.writeStream.format("json")
        .option("path", str(folder / "ordered"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def report(spark: Any, folder: Path) -> list[str]:
    """What waits for the next runs, a line a group."""
    waiting = held(folder / "checkpoint", spark=spark).groupBy("group", "missing_first", "missing_last").count()
    return [
        f"{one.group}: {one['count']} wait for {one.missing_first} to {one.missing_last}"
        for one in waiting.orderBy("group").collect()
    ]


if __name__ == "__main__":
    from pyspark.sql import SparkSession

    session = SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", 2).getOrCreate()
    place = Path(sys.argv[1])
    run(session, place, *sys.argv[2:3])
    print(*report(session, place) or ["nothing waits"], sep="\n")
    session.stop()
