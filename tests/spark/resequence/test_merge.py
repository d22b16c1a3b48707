"""`merge`: what two regions send, as users call it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from seriatim import BestEffort, ColumnError, Fifo, PolicyError, Queue, Standard, UsageError
from seriatim.spark import merge, resequence

SCHEMA = "session string, number long, id string, sent timestamp"


def frame(spark: SparkSession, *rows: tuple[str, int]) -> DataFrame:
    """Messages of a region: session and number. The id says both."""
    values = [(session, number, f"{session}-{number}") for session, number in rows]
    return spark.createDataFrame(values, "session string, number long, id string")


def fates(decided: DataFrame) -> dict[str, list[tuple[Any, ...]]]:
    """By session what left, in order, and what else became of which number of which region."""
    found: dict[str, list[tuple[Any, ...]]] = {}
    for row in sorted(decided.collect(), key=lambda row: (row.ordinal or 99, row.number, row.disposition)):
        told = row.ordinal if row.disposition == "released" else row.disposition
        found.setdefault(row.session, []).append((row.number, told))
    return found


def test_each_message_once_and_in_order_whichever_region_has_it(spark: SparkSession) -> None:
    a = frame(spark, ("g", 1), ("g", 3), ("g", 3), ("h", 2), ("i", 1))
    b = frame(spark, ("g", 2), ("g", 3), ("g", 1), ("h", 1), ("k", 2))
    decided = merge(a, b, session="session", message_id="id", number="number", output="all", buckets=2)
    assert decided.columns == [*a.columns, "region", "ordinal", "late", "disposition", "reason"]
    assert fates(decided) == {
        "g": [(1, 1), (2, 2), (3, 3), (1, "copy"), (3, "copy"), (3, "duplicate")],
        "h": [(1, 1), (2, 2)],
        "i": [(1, 1)],
        "k": [(2, "held")],
    }


def test_without_numbers_each_message_once_in_the_order_of_arrival(spark: SparkSession) -> None:
    a = frame(spark, ("g", 2), ("g", 1)).withColumn("at", F.col("number") * 10)
    b = frame(spark, ("g", 3), ("g", 1), ("g", 2)).withColumn("at", F.lit(25) - F.col("number"))
    once = merge(a, b, session="session", message_id="id", arrival="at", buckets=2)
    assert [(row.number, row.region, row.ordinal) for row in once.orderBy("ordinal").collect()] == [
        (1, "a", 1),
        (2, "a", 2),
        (3, "b", 3),
    ]
    without = merge(a, b, session="session", message_id="id", buckets=2).collect()
    assert sorted(row.number for row in without) == [1, 2, 3]


def put(folder: Path, number: int, rows: list[tuple[str, int]]) -> None:
    """A file that is there at once, in its place by time."""
    folder.mkdir(exist_ok=True)
    hidden = folder / f".{number}"
    lines = [json.dumps({"session": session, "number": n, "id": f"{session}-{n}"}) for session, n in rows]
    hidden.write_text("\n".join(lines) + "\n")
    os.utime(hidden, (1_700_000_000 + number, 1_700_000_000 + number))
    hidden.rename(folder / f"{number}.json")


@pytest.mark.telling
def test_a_region_that_was_away_brings_copies_across_restarts(spark: SparkSession, tmp_path: Path) -> None:
    found: list[Any] = []

    def run() -> list[tuple[int, str]]:
        a, b = (spark.readStream.schema(SCHEMA).json(str(tmp_path / name)) for name in "ab")
        decided = merge(
            a,
            b,
            session="session",
            message_id="id",
            number="number",
            policy=Standard(remember=2),
            output="all",
            buckets=2,
        )
        found.clear()
        query = (
            decided.writeStream.foreachBatch(lambda rows, _: found.extend(rows.collect()))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return sorted((row.number, row.disposition) for row in found)

    put(tmp_path / "a", 1, [("g", n) for n in (1, 2, 4, 5, 6, 7)])
    (tmp_path / "b").mkdir()
    assert run() == [(1, "released"), (2, "released")]
    put(tmp_path / "b", 2, [("g", n) for n in (1, 3, 5, 7, 8)])
    put(tmp_path / "a", 3, [("g", n) for n in (1, 8)])
    released = [(n, "released") for n in range(3, 9)]
    assert run() == sorted([*released, (1, "copy"), (1, "duplicate"), (5, "copy"), (7, "copy"), (8, "copy")])


def test_what_can_not_be_merged_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    a, b = frame(spark, ("g", 1)), frame(spark, ("g", 1))
    stream = spark.readStream.schema(SCHEMA).json(str(tmp_path))
    given: dict[str, Any] = {"session": "session", "message_id": "id"}
    with pytest.raises(
        ColumnError,
        match=r"column 'number': both regions need the same columns: primary has it as bigint, secondary has",
    ):
        merge(a, b.withColumn("number", F.col("number").cast("int")), **given)
    with pytest.raises(ColumnError, match=r"column 'more': both regions .* primary lacks it, secondary has it as int"):
        merge(a, b.withColumn("more", F.lit(1)), **given)
    with pytest.raises(UsageError, match="one of the regions is a stream, and the other isn't"):
        merge(a, stream, **given)
    with pytest.raises(UsageError, match="merge"):
        merge(a, 3, **given)  # type: ignore[arg-type]
    with pytest.raises(ColumnError, match="region"):
        merge(a.withColumn("region", F.lit("eu")), b.withColumn("region", F.lit("us")), **given)
    with pytest.raises(ColumnError, match="session"):
        merge(a, b, session="sesion", message_id="id")
    with pytest.raises(ColumnError, match="ids"):
        merge(a, b, session="session", message_id="ids")
    with pytest.raises(UsageError, match="Standard needs number="):
        merge(a, b, policy=Standard(), **given)
    with pytest.raises(UsageError, match="Fifo goes by arrival, and number= is given"):
        merge(a, b, policy=Fifo(), number="number", **given)
    with pytest.raises(PolicyError, match="ordered by Standard or Fifo, not by BestEffort"):
        merge(a, b, policy=BestEffort(), number="number", **given)
    with pytest.raises(PolicyError, match="horizon is for Fifo"):
        merge(a, b, number="number", horizon="1h", **given)
    with pytest.raises(PolicyError, match="horizon must be above 0"):
        merge(a, b, horizon=0, **given)
    with pytest.raises(PolicyError, match="horizon"):
        merge(a, b, horizon="an hour", **given)


def test_what_resequence_refuses_of_regions(spark: SparkSession) -> None:
    both = frame(spark, ("g", 1)).withColumn("region", F.lit("a"))
    given: dict[str, Any] = {"group": "session", "sequence": "number", "policy": Standard()}
    with pytest.raises(UsageError, match="region= and message_id= belong together"):
        resequence(both, region="region", **given)
    with pytest.raises(ColumnError, match="a region is text, a or b, not a bigint"):
        resequence(both, region="number", message_id="id", **given)
    with pytest.raises(ColumnError, match="a message id can't be a array<int>"):
        resequence(both.withColumn("ids", F.array(F.lit(1))), region="region", message_id="ids", **given)
    with pytest.raises(PolicyError, match="can't open or close groups: a copy would open its group again"):
        resequence(both, region="region", message_id="id", opens="number = 1", arrival="number", **given)
    queues = [Queue("one", BestEffort(), group="session", sequence="number")]
    with pytest.raises(PolicyError, match="not by BestEffort"):
        resequence(both.withColumn("destination", F.lit("one")), queues=queues, region="region", message_id="id")


def test_of_which_content_a_copy_has_to_be(spark: SparkSession) -> None:
    a = frame(spark, ("g", 1), ("g", 2)).withColumn("text", F.lit("x"))
    b = frame(spark, ("g", 1), ("g", 2)).withColumn("text", F.when(F.col("number") == 1, "x").otherwise("y"))
    decided = merge(a, b, session="session", message_id="id", number="number", compare="text", output="all", buckets=1)
    again = [(row.number, row.disposition, row.reason) for row in decided.collect() if row.ordinal is None]
    assert sorted(again) == [
        (1, "copy", "the other region has shown it before"),
        (2, "duplicate", "conflicts: its number was taken in before with another content"),
    ]
