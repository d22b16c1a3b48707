"""One process that measures `resequence` as it is: ``python -m benchmarks.plain_query FEED resequence resequence``.

Processor time is what a query costs, also on a machine that does other work: of this process, of Spark's, and of all
of its Python processes, without the JVM's compilers. The first query pays for all that a session does once. `benchmarks.pipelines`
starts this module once for each of two checkouts, so it uses only what both have.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from pathlib import Path

import click
from pyspark.sql import SparkSession

from benchmarks.feed import SCHEMA
from benchmarks.measure import identity
from benchmarks.used import peaks, used
from seriatim import Standard
from seriatim.spark import resequence
from seriatim.spark.session.builder import open_session


def once(spark: SparkSession, feed: Path, kind: str, files: int) -> dict[str, float]:
    """One query from its start to the end of its last batch: seconds of wall time and of processor time, of it Python's; the peak of
    memory so far (MB), of Spark's process and of a Python worker.
    """
    work = Path(tempfile.mkdtemp(dir=feed.parent))
    source = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", files).parquet(f"{feed}/*.parquet")
    batches = len(list(feed.glob("*.parquet"))) // files
    before, begun = used(), time.perf_counter()
    ordered = kind == "resequence"
    frame = resequence(source, group="customer", sequence="version", policy=Standard()) if ordered else identity(source)
    writer = frame.writeStream.format("parquet").option("path", str(work / "out"))
    query = writer.option("checkpointLocation", str(work / "checkpoint")).trigger(processingTime="0 seconds").start()
    # A commit is seen without asking Spark, which would be measured, too.
    last = work / "checkpoint" / "commits" / str(batches - 1)
    while not last.exists():
        if query.awaitTermination(0.05):
            raise RuntimeError(f"the query has ended: {query.exception()}")
    wall, spent = time.perf_counter() - begun, used() - before
    jvm, worker = peaks()
    query.stop()
    shutil.rmtree(work, ignore_errors=True)
    return {"wall": wall, "total": spent.steady, "python": spent.python, "jvm_mb": jvm, "worker_mb": worker}


@click.command
@click.argument("feed", type=click.Path(path_type=Path))
@click.argument("kinds", nargs=-1, type=click.Choice(["resequence", "identity"]))
@click.option("--files", default=1, help="Read this number of files in each batch.")
@click.option("--own", is_flag=True, help="Make the session as a user does who doesn't ask seriatim for it.")
def main(feed: Path, kinds: tuple[str, ...], files: int, *, own: bool) -> None:
    """Measure a query of each of KINDS over the files of FEED, one after another, and print what `once` tells of each as JSON."""
    settings = {"spark.master": "local[2]", "spark.sql.shuffle.partitions": "2"}
    if own:
        builder = SparkSession.builder.config(map=settings).config("spark.driver.memory", "4g")
        spark = builder.config("spark.ui.enabled", "false").getOrCreate()
    else:
        spark = open_session(settings)
    try:
        json.dump([once(spark, feed, kind, files) for kind in kinds], sys.stdout)
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
