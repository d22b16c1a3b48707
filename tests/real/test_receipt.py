"""A recorded log of building permits, as a stream in 1, 10 and 100 batches (1 and 12 where the suite is small): the same comes
out, byte for byte.
"""

from __future__ import annotations

import csv
import json
import os
import threading
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from seriatim import BestEffort, Queue, Sequencer, Standard
from seriatim.spark import resequence
from tests.conformance.on_spark import wait_for_watermark
from tests.soak import full

POLICIES = {
    "by-window": BestEffort(window="7d"),
    "by-number": Standard(start="first", hole_timeout="1d", on_hole="skip"),
}
SCHEMA = pa.schema(
    [
        ("message", pa.int64()),
        ("case", pa.string()),
        ("task", pa.int64()),
        ("time", pa.timestamp("us", "UTC")),
        ("activity", pa.string()),
        ("resource", pa.string()),
    ]
)
OUTPUT = ("destination", *SCHEMA.names, "ordinal", "late", "disposition", "reason")

Row = dict[str, Any]


@pytest.fixture(scope="module")
def log(shared: Path) -> list[Row]:
    """The events in the order in which they were recorded."""
    with (shared / "data/receipt.csv").open(encoding="utf-8", newline="") as file:
        rows = [
            {
                "case": event["case:concept:name"],
                "task": int(event["concept:instance"].removeprefix("task-")),
                "time": datetime.fromisoformat(event["time:timestamp"]).astimezone(UTC),
                "activity": event["concept:name"],
                "resource": event["org:resource"],
            }
            for event in csv.DictReader(file)
        ]
    rows.sort(key=lambda row: row["time"])
    assert len(rows) == 8577
    return [{"message": number, **row} for number, row in enumerate(rows)]


@pytest.fixture(scope="module")
def afterwards(log: list[Row]) -> list[Row]:
    """A year later an event of another case moves time on, and one comes that is far behind."""
    end = (log[-1]["time"] + timedelta(days=365)).replace(microsecond=0)
    case = next(row for row in log if sum(other["case"] == row["case"] for other in log) > 1)
    last = {"message": 8577, "case": "later", "task": 1, "time": end, "activity": "end", "resource": None}
    return [last, {**case, "message": 8578, "task": case["task"] - 1, "time": log[0]["time"] - timedelta(days=1000)}]


@pytest.fixture(scope="module")
def expected(log: list[Row], afterwards: list[Row]) -> bytes:
    """What the sequencer in memory makes of it, all at once."""
    rows = {row["message"]: row for row in [*log, *afterwards]}
    found = []
    for name, policy in POLICIES.items():
        sequencer = Sequencer(policy)
        for part in (log, afterwards):
            items = [(row["case"], row["task"], row["message"], row["time"].timestamp()) for row in part]
            outcome = sequencer.replay(items, watermark=max(row["time"] for row in part).timestamp())
            for one in outcome.released:
                told = {"ordinal": one.ordinal, "late": one.late, "disposition": "released", "reason": None}
                found.append({"destination": name, **rows[one.value], **told})
            for word in ("late", "duplicate", "invalid", "rejected", "dead"):
                told = {"ordinal": None, "late": False, "disposition": word}
                items = getattr(outcome, "duplicates" if word == "duplicate" else word)
                found += [{"destination": name, **rows[one.value], **told, "reason": one.reason} for one in items]
    return written(found)


def written(rows: list[Row]) -> bytes:
    """Rows as bytes, in an order of their own."""
    lines = [
        json.dumps({name: row[name] for name in OUTPUT}, default=datetime.isoformat) for row in sorted(rows, key=place)
    ]
    return "\n".join(lines).encode()


def place(row: Row) -> tuple[str, int]:
    return row["destination"], row["message"]


def write_files(folder: Path, log: list[Row], afterwards: list[Row], batches: int) -> None:
    """So many files, and one more for what comes afterwards."""
    folder.mkdir()
    edges = [len(log) * number // batches for number in range(batches + 1)]
    parts = [*(log[start:end] for start, end in pairwise(edges)), afterwards]
    for number, part in enumerate(parts):
        file = folder / f"{number:03d}.parquet"
        pq.write_table(pa.Table.from_pylist(part, SCHEMA), file)
        os.utime(file, (1_700_000_000 + number,) * 2)


def stream(spark: SparkSession, folder: Path, end: datetime) -> list[Row]:
    """All rows that a query decides, a file a micro-batch."""
    schema = spark.createDataFrame(SCHEMA.empty_table()).schema
    source = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
    routed = source.withColumn("destination", F.explode(F.array(*map(F.lit, POLICIES))))
    ordered = resequence(
        routed,
        queues=[Queue(name, policy, group="case", sequence="task") for name, policy in POLICIES.items()],
        arrival="time",
        clock="event",
        time="time",
        output="all",
        buckets=2,
    )
    lock, rows = threading.Lock(), dict[int, list[Row]]()

    def take(frame: DataFrame, batch: int) -> None:
        with lock:
            rows[batch] = frame.toArrow().to_pylist()

    query = (
        ordered.writeStream.foreachBatch(take)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(processingTime="0 seconds")
        .start()
    )
    try:
        wait_for_watermark(query, end, deadline_s=480)
    finally:
        query.stop()
    check_order(rows)
    return [row for batch in sorted(rows) for row in rows[batch]]


def check_order(rows: dict[int, list[Row]]) -> None:
    """A group's released rows leave in order, from batch to batch and within each."""
    last: dict[tuple[str, str], int] = {}
    for batch in sorted(rows):
        for row in rows[batch]:
            if row["disposition"] == "released":
                group = row["destination"], row["case"]
                assert row["ordinal"] == last.get(group, 0) + 1
                last[group] = row["ordinal"]


@pytest.mark.soak
@pytest.mark.parametrize("batches", [1, 10, 100] if full() else [1, 12])
def test_history_is_replayed_alike_in_any_number_of_batches(
    spark: SparkSession, log: list[Row], afterwards: list[Row], expected: bytes, tmp_path: Path, batches: int
) -> None:
    write_files(tmp_path / "in", log, afterwards, batches)
    found = stream(spark, tmp_path, afterwards[0]["time"])
    assert written(found) == expected
    behind = [row for row in found if row["message"] == 8578]
    assert [row["disposition"] for row in behind] == ["late", "late"]
    dispositions = {(row["destination"], row["disposition"]) for row in found}
    assert {("by-window", "late"), ("by-number", "late"), ("by-number", "released")} <= dispositions
