"""One process that measures `resequence` as it is, in processor time: ``python -m benchmarks.plain_query FEED QUERIES``.

Processor time is what a query costs, also on a machine that does other work: of this process, of Spark's, and of all
of its Python processes. The first query pays for the JVM's compiler. `benchmarks.pipelines` starts this module once
for each of two checkouts, so it uses only what both have.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path

import click
from pyspark.sql import SparkSession

from benchmarks.feed import SCHEMA
from benchmarks.used import used
from seriatim import Standard
from seriatim.spark import resequence
from seriatim.spark.session.builder import open_session


def once(spark: SparkSession, feed: Path, batches: int) -> float:
    """Seconds of processor time of one query, from its start to the end of its last batch."""
    work = Path(tempfile.mkdtemp(dir=feed.parent))
    before = used()
    source = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(f"{feed}/*.parquet")
    frame = resequence(source, group="customer", sequence="version", policy=Standard())
    writer = frame.writeStream.format("parquet").option("path", str(work / "out"))
    query = writer.option("checkpointLocation", str(work / "checkpoint")).trigger(processingTime="0 seconds").start()
    # A commit is seen without asking Spark, which would be measured, too.
    last = work / "checkpoint" / "commits" / str(batches - 1)
    while not last.exists():
        if query.awaitTermination(0.05):
            raise RuntimeError(f"the query has ended: {query.exception()}")
    seconds = (used() - before).total
    query.stop()
    shutil.rmtree(work, ignore_errors=True)
    return seconds


@click.command
@click.argument("feed", type=click.Path(path_type=Path))
@click.argument("queries", type=int)
def main(feed: Path, queries: int) -> None:
    """Measure so many QUERIES over the files of FEED, and print their seconds as JSON."""
    batches = len(list(feed.glob("*.parquet")))
    spark = open_session({"spark.master": "local[2]", "spark.sql.shuffle.partitions": "2"})
    try:
        json.dump([once(spark, feed, batches) for _ in range(queries)], sys.stdout)
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
