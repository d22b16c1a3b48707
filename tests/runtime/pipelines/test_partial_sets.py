"""Sets in a pipeline file that may stay incomplete, and whose keys are used again: what is said of them, in each format."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from seriatim.pipeline.files.pipeline_file import load
from seriatim.runtime.pipelines.run import run

FILE = """
name: sets
checkpoint: {folder}/checkpoint
buckets: 2
trigger: 0s
receive:
  - location: parts
    source: {{format: json, path: {folder}/in}}
    promote: {{key: $.set, nth: {{path: $.nth, type: long}}, size: {{path: $.size, type: long}}, text: $.text}}
route:
"""
ROUTE = """
  - to: {kind}
    where: "TRUE"
    resequence:
      {{policy: unit_of_work, size: size, timeout: 10ms, on_timeout: deliver, once: false, compare: text, group: key, sequence: nth}}
    deliver: {{format: {kind}, path: {folder}/out/{kind}}}
"""
LINES = [
    {"set": "a", "nth": 2, "size": 2, "text": "A2"},
    {"set": "a", "nth": 1, "text": "A1"},
    {"set": "b", "nth": 2, "size": 5, "text": "B2"},
    {"set": "b", "nth": 4, "text": "B4"},
    {"set": "a", "nth": 2, "size": 2, "text": "A2"},
    {"set": "a", "nth": 1, "text": "X1"},
    {"set": "a", "nth": 2, "size": 2, "text": "X2"},
]
ROWS = [
    ("A1", 1, False, []),
    ("A2", 2, False, []),
    ("X1", 3, False, []),
    ("X2", 4, False, []),
    ("B2", 1, True, [1, 3, 5]),
    ("B4", 2, True, [1, 3, 5]),
]


def read(folder: Path, kind: str) -> list[tuple[object, ...]]:
    rows: list[dict[str, object]] = []
    for part in sorted((folder / "out" / kind).glob("batch=*/part-*")):
        if kind == "parquet":
            rows += pq.read_table(part).to_pylist()
        elif kind == "json":
            rows += map(json.loads, part.read_text().splitlines())
        else:
            rows += [
                {
                    **row,
                    "ordinal": int(row["ordinal"]),
                    "partial": row["partial"] == "true",
                    "missing": json.loads(row["missing"]),
                }
                for row in csv.DictReader(part.read_text().splitlines())
            ]
    in_order = sorted(rows, key=lambda row: (row["group"], row["ordinal"]))  # type: ignore[arg-type,return-value]
    return [(row["text"], row["ordinal"], row["partial"], row["missing"]) for row in in_order]


@pytest.mark.usefixtures("spark")
def test_what_there_is_of_a_set_leaves_with_what_is_missing(spark: SparkSession, tmp_path: Path) -> None:
    kinds = ("json", "parquet", "csv")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.json").write_text("".join(f"{json.dumps(one)}\n" for one in LINES))
    file = tmp_path / "pipeline.yaml"
    file.write_text(FILE.format(folder=tmp_path) + "".join(ROUTE.format(kind=kind, folder=tmp_path) for kind in kinds))
    summary = run(load(file), finish=True)
    assert [(one.released, one.duplicate) for one in summary.accounts] == [(6, 1)] * 3
    for kind in kinds:
        assert read(tmp_path, kind) == ROWS, kind
