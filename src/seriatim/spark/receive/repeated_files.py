"""Keep Spark from reading files of a micro-batch several times.

If the name of a file looks like a pattern (``export[1].json``), Spark puts all files of the micro-batch on its list
once more (SPARK-58518), and would read each of the others twice. The partitions of its scans list the files to read:
there the repetitions are removed, before a task is started.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from seriatim.errors import EnvironmentProblem

_OF_PATTERNS = frozenset("{}[]*?\\")
_SCAN = "FileSourceScanExec"


def is_like_pattern(path: str) -> bool:
    return not _OF_PATTERNS.isdisjoint(path)


def read_once(session: SparkSession, execution: Any, sources: int) -> None:
    """Remove repeated files from the scans of a micro-batch."""
    leaves = execution.executedPlan().collectLeaves()
    scans = [leaf for leaf in map(leaves.apply, range(leaves.size())) if leaf.getClass().getSimpleName() == _SCAN]
    if len(scans) < sources:
        raise EnvironmentProblem(
            "files whose names have one of { } [ ] * ? \\ would be read several times, and what is read can't be seen",
            remedy="report this with Spark's version, and give the files other names",
        )
    for scan in scans:
        _take_out(session, scan.inputRDD().partitions())


def _take_out(session: SparkSession, partitions: Any) -> None:
    """Replace the partitions that repeat a block; Spark makes its tasks from this array."""
    jvm: Any = session.sparkContext._jvm  # noqa: SLF001
    spark = jvm.org.apache.spark.sql.execution.datasources
    gateway: Any = session.sparkContext._gateway  # noqa: SLF001
    seen: set[tuple[str, int]] = set()
    for place in range(len(partitions)):
        blocks = list(partitions[place].files())
        kept = []
        for block in blocks:
            key = (str(block.filePath().toString()), int(block.start()))
            if key not in seen:
                seen.add(key)
                kept.append(block)
        if len(kept) < len(blocks):
            files = gateway.new_array(spark.PartitionedFile, len(kept))
            for number, block in enumerate(kept):
                files[number] = block
            partitions[place] = spark.FilePartition(place, files)
