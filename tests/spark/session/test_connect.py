"""Through Spark Connect, and with a foreign ``python3`` first in PATH: each in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command import environment as quick

PROGRAM = """
import sys, threading
import seriatim as sq
from seriatim.spark import resequence
from seriatim.spark.session.transient_failures import healing_of_spark
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

def at_last(run):
    "Run a query to its end, and again from its checkpoint where the machine was slow: Spark gives a source's process 10 s to start."
    for left in (2, 1, 0):
        try:
            return run()
        except StreamingQueryException as error:
            if not left or healing_of_spark(str(error)) is None:
                raise

master, folder = sys.argv[1:]
builder = SparkSession.builder.config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "2")
builder = builder.config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1")
spark = builder.remote("local[2]").getOrCreate() if master == "connect" else builder.master("local[2]").getOrCreate()
frame = spark.createDataFrame([("a", 2, "y"), ("a", 1, "x"), ("b", 3, "z")], "g string, n long, v string")
static = resequence(frame, group="g", sequence="n", policy=sq.Standard(), output="all").collect()
assert sorted((r.g, r.n, r.disposition) for r in static) == [("a", 1, "released"), ("a", 2, "released"), ("b", 3, "held")]

frame.repartition(1).write.json(folder + "/in")
source = spark.readStream.schema(frame.schema).json(folder + "/in")
policy = sq.Standard(hole_timeout=1, on_hole="skip")
ordered = resequence(source, group="g", sequence="n", policy=policy, buckets=2)
writer = ordered.writeStream.format("parquet").option("path", folder + "/out")
writer = writer.option("checkpointLocation", folder + "/checkpoint")

def until_all_is_written():
    query = writer.trigger(processingTime="0 seconds").start()
    for _ in range(240):
        if query.exception() is not None:
            raise query.exception()
        done = spark.read.schema(ordered.schema).parquet(folder + "/out").count() if query.lastProgress else 0
        if done == 3:
            break
        query.awaitTermination(0.5)
    else:
        print([(p["batchId"], p["numInputRows"], p["observedMetrics"], p["sources"][-1]["endOffset"]) for p in query.recentProgress])
    query.stop()

def what_is_there():
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(120), "a job that takes what is there doesn't end"

at_last(until_all_is_written)
at_last(what_is_there)
rows = spark.read.parquet(folder + "/out").orderBy("g", "ordinal").collect()
assert [(r.g, r.n, r.v, r.ordinal, r.late) for r in rows] == [
    ("a", 1, "x", 1, False), ("a", 2, "y", 2, False), ("b", 3, "z", 1, False)
], rows
spark.stop()
print("in order")
"""


@pytest.mark.proves("the operator runs in a user's session, Connect or classic, with a foreign Python in PATH")
@pytest.mark.spark
@pytest.mark.parametrize("master", ["connect", "classic"])
def test_a_user_s_own_session(master: str, tmp_path: Path) -> None:
    foreign = tmp_path / "bin"
    foreign.mkdir()
    for name in ("python", "python3"):
        (foreign / name).write_text("#!/bin/sh\necho 'not this Python' >&2\nexit 97\n")
        (foreign / name).chmod(0o755)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK", "SPARK"))}
    environment["PATH"] = f"{foreign}:{environment['PATH']}"
    environment["JAVA_TOOL_OPTIONS"] = quick()["JAVA_TOOL_OPTIONS"]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, master, str(tmp_path)],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.stdout.strip().endswith("in order"), done.stdout[-2000:] + done.stderr[:20_000]
