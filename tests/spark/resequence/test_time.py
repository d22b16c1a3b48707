"""A query that puts messages in order ends and rests like any other, and its time-outs come when they are due."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from seriatim import Queue, Standard
from seriatim.spark import resequence
from seriatim.spark.control.due import MOST_SLOTS
from tests.spark.resequence.test_resequence import put, stream_of

SCHEMA = "destination string, g string, n long"
#: So short that it has ended by any later batch.
AT_ONCE_S = 0.001


class Taken:
    """What a query has decided: by batch, in the order of its calls."""

    def __init__(self, fails: Callable[[int], bool] = lambda _: False) -> None:
        self.calls: list[tuple[int, list[tuple[str, int]]]] = []
        self._fails = fails

    def take(self, frame: DataFrame, batch: int) -> None:
        rows = sorted((row.g, row.n) for row in frame.collect())
        self.calls.append((batch, rows))
        if self._fails(batch):
            raise RuntimeError("the sink is gone")

    def started(self, frame: DataFrame, checkpoint: Path, **trigger: Any) -> Any:
        writer = frame.writeStream.foreachBatch(self.take).option("checkpointLocation", str(checkpoint))
        return writer.trigger(**(trigger or {"processingTime": "0 seconds"})).start()

    def wait_for(self, query: Any, group: str, number: int) -> None:
        """Until a batch has decided that message."""
        for _ in range(1200):
            if any((group, number) in rows for _, rows in self.calls):
                return
            query.awaitTermination(0.1)
        raise AssertionError(f"{group} {number} was not decided: {self.calls}")


def skipping(name: str, seconds: float | None) -> Queue:
    """Skips holes after a time; None: waits."""
    policy = Standard() if seconds is None else Standard(hole_timeout=seconds, on_hole="skip")
    return Queue(name, policy, group="g", sequence="n")


def ordered(source: DataFrame, *, buckets: int = 2, **seconds: float | None) -> DataFrame:
    queues = [skipping(name, after) for name, after in seconds.items()]
    return resequence(source, queues=queues, buckets=buckets)


def row(queue: str, number: int) -> dict[str, Any]:
    """A message of the queue's one group, which has the queue's name."""
    return {"destination": queue, "g": queue, "n": number}


def committed(checkpoint: Path) -> list[int]:
    return sorted(int(file.name) for file in (checkpoint / "commits").iterdir() if file.name.isdecimal())


def batch_time(checkpoint: Path, batch: int) -> int:
    """The time of a batch, milliseconds."""
    _, told, *_ = (checkpoint / "offsets" / str(batch)).read_text().splitlines()
    return int(json.loads(told)["batchTimestampMs"])


def test_an_available_now_job_ends_and_time_outs_pass_between_its_runs(spark: SparkSession, tmp_path: Path) -> None:
    source = stream_of(spark, tmp_path / "in", SCHEMA)
    checkpoint = tmp_path / "checkpoint"
    put(tmp_path / "in", 1, [row("soon", 1), row("never", 2)])
    put(tmp_path / "in", 2, [row("soon", 2)])
    put(tmp_path / "in", 3, [row("soon", 4), row("never", 4)])

    def run(**seconds: float | None) -> list[tuple[int, list[tuple[str, int]]]]:
        taken = Taken()
        query = taken.started(ordered(source, **seconds), checkpoint, availableNow=True)
        try:
            assert query.awaitTermination(180)
        finally:
            query.stop()
        return taken.calls

    # As many batches as there are files: a source that didn't know this trigger would make them one.
    assert run(soon=AT_ONCE_S, never=None) == [(0, [("soon", 1)]), (1, [("soon", 2)]), (2, [])]
    # The time-out has passed in between. One batch looks what is due, though there is nothing new.
    assert run(soon=AT_ONCE_S, never=None) == [(3, [("soon", 4)])]
    # Without a time-out the same query ends, too.
    put(tmp_path / "in", 4, [row("never", 1)])
    assert run(soon=None, never=None) == [(4, [("never", 1), ("never", 2)])]
    assert committed(checkpoint)[-1] == 4


def test_a_query_without_clocks_is_not_woken(spark: SparkSession, tmp_path: Path) -> None:
    source = stream_of(spark, tmp_path / "in", SCHEMA)
    checkpoint = tmp_path / "checkpoint"
    put(tmp_path / "in", 1, [row("never", 1), row("never", 3)])
    found = []
    for _ in range(2):
        taken = Taken()
        query = taken.started(ordered(source, never=None), checkpoint, availableNow=True)
        try:
            assert query.awaitTermination(180)
        finally:
            query.stop()
        found.append(taken.calls)
    # The second run finds nothing new, and makes no batch.
    assert found == [[(0, [("never", 1)])], []]
    assert committed(checkpoint) == [0]


def test_a_query_rests_between_what_is_due(spark: SparkSession, tmp_path: Path) -> None:
    source = stream_of(spark, tmp_path / "in", SCHEMA)
    checkpoint = tmp_path / "checkpoint"
    taken = Taken()
    put(tmp_path / "in", 1, [row("soon", 1), row("soon", 3), row("later", 1), row("later", 3)])
    # More buckets than are observed one by one.
    query = taken.started(ordered(source, buckets=2 * MOST_SLOTS, soon=AT_ONCE_S, later=6.0), checkpoint)
    try:
        query.processAllAvailable()
        assert taken.calls[0] == (0, [("later", 1), ("soon", 1)])
        taken.wait_for(query, "soon", 3)
        taken.wait_for(query, "later", 3)
        put(tmp_path / "in", 2, [row("soon", 4)])
        query.processAllAvailable()
    finally:
        query.stop()
    # Each batch had something to do: in the 6 seconds in between there was none.
    decided = [batch for batch, rows in taken.calls if rows]
    assert decided == committed(checkpoint)
    assert decided == list(range(len(decided)))
    due = batch_time(checkpoint, 0) + 6000
    fired = next(batch for batch, rows in taken.calls if ("later", 3) in rows)
    assert batch_time(checkpoint, fired) >= due


def test_a_batch_that_runs_again_has_its_time_and_its_ticks(spark: SparkSession, tmp_path: Path) -> None:
    source = stream_of(spark, tmp_path / "in", SCHEMA)
    checkpoint = tmp_path / "checkpoint"
    put(tmp_path / "in", 1, [row("soon", 2), row("later", 2)])
    # Batch 1 is a tick alone; its offsets are written, and it isn't committed.
    broken = Taken(fails=lambda batch: batch == 1)
    frame = ordered(source, soon=AT_ONCE_S, later=3.0)
    query = broken.started(frame, checkpoint)
    with pytest.raises(Exception, match="the sink is gone"):
        query.awaitTermination(180)
    assert committed(checkpoint) == [0]
    began = batch_time(checkpoint, 1)
    # By its own clock the second run would let out both.
    while time.time() * 1000 < batch_time(checkpoint, 0) + 3000:
        threading.Event().wait(0.05)

    again = Taken()
    query = again.started(frame, checkpoint)
    try:
        again.wait_for(query, "later", 2)
    finally:
        query.stop()
    assert again.calls[0] == broken.calls[-1]
    assert ("soon", 2) in again.calls[0][1]
    assert batch_time(checkpoint, 1) == began
