"""The query of a pipeline, up to its sink: receive, route, resequence.

Owns the composition and what is measured at the entrance; each stage is a module of its own.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from functools import reduce
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from seriatim.errors import UsageError
from seriatim.pipeline.declaration import Destination, Pipeline, StartFrom
from seriatim.spark.buckets import bucket_ids
from seriatim.spark.operator import FINISH
from seriatim.spark.receive import ARRIVAL, receive
from seriatim.spark.resequence import resequence

__all__ = ["arrived_in", "decided", "is_idle", "let_time_run_out", "was_commanded"]

_OBSERVED = "seriatim"


def decided(spark: SparkSession, pipeline: Pipeline, *, buckets: int, control: Path) -> DataFrame:
    """Every message of a pipeline, once for each destination, when it is decided; and the operator's reports.

    Args:
        spark: the session.
        pipeline: what to run.
        buckets: into how many parts the state is cut.
        control: a folder for commands to the operator; see `let_time_run_out`.

    Raises:
        UsageError: a source, column or file of first numbers is not as it has to be.
    """
    start_from = [_first_numbers(spark, one, one.start_from) for one in pipeline.route if one.start_from is not None]
    return resequence(
        _entered(receive(spark, pipeline), pipeline),
        queues=[one.queue for one in pipeline.route],
        destination="destination",
        invalid="_invalid",
        arrival=[pipeline.arrival, *ARRIVAL] if pipeline.arrival else list(ARRIVAL),
        clock=pipeline.clock,
        time=pipeline.time,
        watermark=pipeline.watermark_s if pipeline.clock == "event" else None,
        start_from=reduce(DataFrame.unionByName, start_from) if start_from else None,
        output="all",
        buckets=buckets,
        reports=True,
        control=_commands(spark, control),
    )


def _commands(spark: SparkSession, control: Path) -> DataFrame:
    """A stream of files with the ids of the buckets in which time is to run out.

    It is a source like any other, so a batch that runs again gets the same commands.
    """
    control.mkdir(parents=True, exist_ok=True)
    lines = spark.readStream.format("text").load(str(control))
    return lines.select(F.col("value").cast("int").alias("bucket"), F.lit(FINISH).alias("packet"))


def let_time_run_out(control: Path, buckets: int) -> None:
    """Command every bucket to let time run out: it releases, skips and gives up as if all its clocks had ended."""
    name = f"finish-{uuid.uuid4()}"
    hidden = control / f".{name}"
    hidden.write_text("".join(f"{bucket}\n" for bucket in bucket_ids(buckets)), encoding="utf-8")
    hidden.rename(control / name)


def was_commanded(progress: Mapping[str, Any]) -> bool:
    """Whether the micro-batch of a progress event took in commands; their source is the last one."""
    return bool(progress["sources"][-1]["numInputRows"] > 0)


def is_idle(progress: Mapping[str, Any]) -> bool:
    """Whether no source had anything new when this was reported."""
    sources = progress["sources"]
    return all(source["numInputRows"] == 0 and source["startOffset"] == source["endOffset"] for source in sources)


def _entered(received: DataFrame, pipeline: Pipeline) -> DataFrame:
    """Each message once for each destination, counted."""
    names = [destination.queue.name for destination in pipeline.route]
    to = F.lit(names[0]) if len(names) == 1 else F.explode(F.array(*map(F.lit, names)))
    entered = received.withColumn("destination", to)
    counts = [F.count_if(F.col("destination") == name).alias(f"to_{place}") for place, name in enumerate(names)]
    return entered.observe(_OBSERVED, *counts)


def arrived_in(progress: Mapping[str, Any], pipeline: Pipeline) -> dict[str, int]:
    """How many messages entered each destination in the micro-batch of a progress event."""
    observed = progress["observedMetrics"].get(_OBSERVED)
    names = [destination.queue.name for destination in pipeline.route]
    if observed is None:
        return dict.fromkeys(names, 0)
    return {name: observed[f"to_{place}"] or 0 for place, name in enumerate(names)}


def _first_numbers(spark: SparkSession, destination: Destination, source: StartFrom) -> DataFrame:
    """(destination, group, next) of a file of first numbers.

    Raises:
        UsageError: the file lacks a column, or a row has no group or no number.
    """
    where = f"start_from of {destination.queue.name}"
    reader = spark.read.option("header", "true") if source.format == "csv" else spark.read
    found = reader.format(source.format).load(str(source.path.absolute()))
    for column in (source.group, source.next):
        if column not in found.columns:
            known = ", ".join(name for name in found.columns if not name.startswith("_"))
            raise UsageError(f"{source.path} has no column {column!r}", where=where, remedy=f"it has {known}")
    numbers = found.select(
        F.lit(destination.queue.name).alias("destination"),
        F.col(f"`{source.group}`").cast("string").alias("group"),
        F.col(f"`{source.next}`").try_cast("bigint").alias("next"),
    )
    bad = numbers.where(F.col("group").isNull() | F.col("next").isNull()).limit(1).collect()
    if bad:
        what = (
            f"{source.path}: group {bad[0].group!r} has no first number"
            if bad[0].group
            else f"{source.path}: a row has no group"
        )
        raise UsageError(what, where=where, remedy=f"{source.group} is text, {source.next} a whole number")
    return numbers
