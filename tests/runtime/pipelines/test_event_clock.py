"""By the event clock a group's time-out ends when time passes it, also in a bucket for which nothing arrives."""

from __future__ import annotations

import json
import os

import pytest

from seriatim.pipeline.files.pipeline_file import load
from seriatim.runtime.pipelines.move import move
from seriatim.runtime.pipelines.run import run
from seriatim.spark.state.group_index import Index
from tests.delivered import table_of

pytestmark = pytest.mark.usefixtures("spark")

FILE = """
name: orders
checkpoint: {folder}/checkpoint
buckets: {buckets}
trigger: 0s
clock: event
time: at
receive:
  - location: crm
    source: {{format: json, path: {folder}/in, options: {{maxFilesPerTrigger: 1}}}}
    promote: {{at: {{path: $.at, type: timestamp}}, customer: $.customer, version: {{path: $.version, type: long}}}}
route:
  - to: ordered
    resequence: {{policy: standard, group: customer, sequence: version{options}}}
    deliver: {{format: json, path: {folder}/out/ordered}}
"""
#: The bucket that takes part in every batch.
WITNESS = 0
SKIPPING = ", hole_timeout: 100s, on_hole: skip"


def pipeline(folder, options, buckets=5):
    file = folder / "pipeline.yaml"
    file.write_text(FILE.format(folder=folder, buckets=buckets, options=options))
    return load(file)


def put(folder, minute, *rows):
    """The messages of one minute, which are taken in as one batch."""
    hidden = folder / "in" / f".{minute}"
    hidden.parent.mkdir(exist_ok=True)
    told = [{"customer": one, "version": version, "at": f"2026-01-01T00:{minute:02}:00Z"} for one, version in rows]
    hidden.write_text("".join(json.dumps(row) + "\n" for row in told))
    os.utime(hidden, (1_700_000_000 + minute, 1_700_000_000 + minute))
    hidden.rename(folder / "in" / f"{minute}.json")


def delivered(folder):
    """Versions by group, in the order of their delivery."""
    found = {}
    for row in table_of(folder / "out" / "ordered", "json").to_pylist():
        found.setdefault(row["group"], []).append(row["version"])
    return found


def groups_by_bucket(spark, folder):
    """The keys of a bucket's groups, by its id."""
    reader = spark.read.format("statestore").option("operatorId", 0).option("stateVarName", "index")
    values = reader.load(str(folder / "checkpoint" / "query")).select("key.bucket", "value.value").collect()
    indexes = {row.bucket: Index.from_bytes(bytes(row.value), None) for row in values}
    return {bucket: index.queues["ordered"].keys.to_pylist() for bucket, index in indexes.items() if index.queues}


def holds_still(folder, options, buckets=5):
    """Let `still` wait behind a hole since minute 0, and time move to minute 1."""
    put(folder, 0, ("still", 1), ("still", 3))
    put(folder, 1, ("busy", 1))
    summary = run(pipeline(folder, options, buckets), once=True)
    assert summary.accounts[0].held == 1


def passes_the_time_out(spark, folder, options):
    """Let time move past minute 2 by messages of another bucket alone."""
    put(folder, 2, ("busy", 2))
    put(folder, 4, ("busy", 3))
    summary = run(pipeline(folder, options), once=True)
    groups = groups_by_bucket(spark, folder)
    assert [groups[bucket] for bucket in groups if bucket != WITNESS and b"still" in groups[bucket]] == [[b"still"]]
    assert summary.accounts[0].held == 0
    assert delivered(folder) == {"still": [1, 3], "busy": [1, 2, 3]}


def test_after_a_move_the_hole_of_a_quiet_bucket_is_skipped_at_its_time(spark, tmp_path):
    holds_still(tmp_path, SKIPPING, buckets=2)
    assert move(pipeline(tmp_path, SKIPPING)).is_moved
    passes_the_time_out(spark, tmp_path, SKIPPING)


@pytest.mark.parametrize("former", ["", SKIPPING.replace("100s", "1h")], ids=["added", "shortened"])
def test_a_changed_time_out_counts_for_a_quiet_bucket_too(spark, tmp_path, former):
    holds_still(tmp_path, former)
    passes_the_time_out(spark, tmp_path, SKIPPING)
