"""A pipeline file over rows of a test."""

from __future__ import annotations

import pytest

import seriatim as sq
from seriatim.testing import faulty_feed, run_pipeline

FILE = """\
name: orders
receive:
  - location: shop
    source: {format: json, path: /nowhere/inbox, options: {maxFilesPerTrigger: 1, pathGlobFilter: '*.gz'}}
    promote: {customer: $.customer, version: {path: $.version, type: long}}
route:
  - to: big
    where: "version < 100"
    resequence: {policy: standard, group: customer, sequence: version, hole_timeout: 1h, on_hole: skip}
    deliver: {queue: big}
  - to: one-order
    resequence: {policy: fifo, group: {whole_queue: true}}
    deliver: {format: kafka, options: {kafka.bootstrap.servers: 'k:9092', topic: t}}
  - to: gone
    deliver: drop
"""
ROWS = [{"customer": customer, "version": version} for version in (2, 1, 2, 4) for customer in ("a", "b")]


@pytest.fixture
def file(tmp_path):
    (tmp_path / "orders.yaml").write_text(FILE)
    return tmp_path / "orders.yaml"


def versions(result, destination="big", group="a"):
    return [row["version"] for row in result.released[destination] if row["group"] == group]


def test_it_tells_what_became_of_each_row(spark, file, tmp_path):
    result = run_pipeline(file, [*ROWS, b"{broken"], spark=spark)
    assert (versions(result), versions(result, group="b")) == ([1, 2], [1, 2])
    assert [(one.group, one.held, one.missing_first) for one in result.held] == [("a", 1, 3), ("b", 1, 3)]
    reasons = {(one.destination, one.disposition): one.reason for one in result.set_aside}
    assert ("big", "duplicate") in reasons
    assert any(disposition == "invalid" for _, disposition in reasons)
    whole = result.released["one-order"]
    assert [row["ordinal"] for row in whole if row["group"] == "all"] == list(range(1, len(whole) + 1))
    assert [row["body"] for row in whole][:2] == [
        b'{"customer": "a", "version": 2}',
        b'{"customer": "b", "version": 2}',
    ]
    assert result.released["gone"] == []
    assert result.summary.pipeline == "orders"
    assert sorted(one.name for one in tmp_path.iterdir()) == ["orders.yaml"]
    finished = run_pipeline(file, faulty_feed(ROWS, seed=1), finish=True)
    assert (versions(finished), finished.held) == ([1, 2, 4], ())


def test_each_location_gets_its_rows(spark, file):
    second = "  - location: far\n    source: {format: parquet, path: /nowhere/far}\n    promote: {customer: customer, version: {path: version, type: long}}\n"
    file.write_text(FILE.replace("route:", f"{second}route:"))
    result = run_pipeline(file, {"shop": ROWS[:2], "far": [{"customer": "a", "version": 1}]})
    assert versions(result) == [1, 2]
    with pytest.raises(sq.UsageError, match=r"the locations of .* are far, shop, and rows are given for shop"):
        run_pipeline(file, ROWS)


def test_what_reads_no_files_is_told(file):
    file.write_text(
        FILE.replace(
            "{format: json, path: /nowhere/inbox, options: {maxFilesPerTrigger: 1, pathGlobFilter: '*.gz'}}",
            "{format: rate, id: [value]}",
        )
    )
    with pytest.raises(sq.UsageError, match="location 'shop' reads rate, and rows of a test are files"):
        run_pipeline(file, ROWS)


def test_a_file_with_faults_is_told(file):
    file.write_text(FILE.replace("policy: fifo", "policy: fifi"))
    with pytest.raises(sq.DeclarationError, match="did you mean 'fifo'"):
        run_pipeline(file, ROWS)
