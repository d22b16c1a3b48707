"""A scheduled job: each run takes in what has come, and ends; what waits and its time-out go on from run to run."""

from __future__ import annotations

import json
from pathlib import Path

from examples.hourly.__main__ import report, run


def put(folder: Path, name: str, *orders: tuple[str, int]) -> None:
    lines = [json.dumps({"customer": customer, "number": number, "item": "pen"}) for customer, number in orders]
    (folder / "inbox").mkdir(exist_ok=True)
    (folder / "inbox" / name).write_text("\n".join(lines) + "\n")


def ordered(spark, folder):
    rows = spark.read.json(str(folder / "ordered")).select("customer", "number", "ordinal").collect()
    return sorted(map(tuple, rows))


def test_what_waits_and_its_time_out_go_on_from_run_to_run(spark, tmp_path):
    put(tmp_path, "1.json", ("ann", 1), ("ann", 3), ("bob", 2))
    run(spark, tmp_path)
    assert report(spark, tmp_path) == ["ann: 1 wait for 2 to 2", "bob: 1 wait for 1 to 1"]
    assert ordered(spark, tmp_path) == [("ann", 1, 1)]
    put(tmp_path, "2.json", ("bob", 1), ("ann", 4))
    run(spark, tmp_path)
    assert report(spark, tmp_path) == ["ann: 2 wait for 2 to 2"]
    run(spark, tmp_path, "1ms")  # nothing has come, and the time is over
    assert report(spark, tmp_path) == []
    assert ordered(spark, tmp_path) == [("ann", 1, 1), ("ann", 3, 2), ("ann", 4, 3), ("bob", 1, 1), ("bob", 2, 2)]
