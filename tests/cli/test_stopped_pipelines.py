"""What the commands tell of a pipeline that isn't running, from the files of its checkpoint, without Spark."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from seriatim.cli.main import main
from seriatim.spark.control.source import FIRST_OFFSET

FILE = """
name: orders
receive:
  - location: crm
    source: {format: json, path: inbox/}
    promote: {customer: $.customer, version: {path: $.version, type: long}}
route:
  - to: ordered
    resequence: {policy: standard, group: customer, sequence: version}
    deliver: {format: json, path: out}
"""
SINCE = 1_700_000_000_000_000
TWO = {
    "queue": "ordered", "group": "two", "state": "waiting", "since": SINCE, "next": 3, "held": 1, "missing_first": 3,
    "missing_last": 3, "last_released": 2, "ordinal": 1, "incarnation": 0, "due_at": None, "late": 0,
    "by_operator": False, "closing": False, "unopened": False, "restart_suspected": False, "reason": "waits",
}  # fmt: skip
REPORT = {
    "bucket": 1, "held": {"ordered": 1}, "holes": {"ordered": 1}, "groups": {"ordered": 3},
    "held_groups": {"ordered": 1}, "longest": [["ordered", "two", 1, 3, 3, SINCE, "waits"]],
    "stopped": {"groups": 1, "first": [TWO]},
}  # fmt: skip


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A checkpoint after two batches, below the current folder."""
    monkeypatch.chdir(tmp_path)
    root = tmp_path / ".seriatim" / "pipelines" / "orders"
    for name in ("offsets", "commits", "state"):
        (root / "query" / name).mkdir(parents=True)
    (tmp_path / "inbox").mkdir()
    (root / "declaration.yaml").write_text(FILE)
    (root / "pipeline.json").write_text(json.dumps({"pipeline": "orders", "id": "x", "buckets": 2, "layout": 3}))
    counts = {"ordered": {"released": 4, "late": 1}, "": {"unrouted": 2}}
    standing = {"batch": 1, "counts": counts, "reports": {"1": REPORT}}
    (root / "tally.json").write_text(json.dumps({"standing": standing, "before": standing}))
    for batch in range(2):
        head = json.dumps({"batchTimestampMs": SINCE // 1000})
        (root / "query" / "offsets" / str(batch)).write_text(f"v1\n{head}\n{json.dumps(FIRST_OFFSET)}\n")
        (root / "query" / "commits" / str(batch)).write_text("v1\n{}")
    return root


def invoked(line):
    return CliRunner().invoke(main, line.split())


def test_it_is_listed_with_what_it_holds_and_its_groups_come_from_the_last_report(folder):
    (found,) = json.loads(invoked("pipeline list --json").output)
    assert [found[name] for name in ("pipeline", "running", "batch", "held", "holes", "set_aside", "queued")] == [
        "orders", False, 1, 1, 1, 1, 0,
    ]  # fmt: skip
    shown = invoked("pipeline show orders").output.splitlines()
    assert shown[-1].split() == ["ordered", "4", "1", "1", "3", "1", "late"]
    (two,) = json.loads(invoked("groups --pipeline orders --json").output)
    assert (two["group"], two["missing_first"], two["since"]) == ("two", 3, "2023-11-14T22:13:20+00:00")
    assert json.loads(invoked("groups --pipeline orders --json --key x*").output) == []


def test_commands_are_queued_and_a_log_that_was_edited_takes_no_more(folder):
    done = invoked("group suspend two three --pipeline orders --actor ada --reason x")
    *lines, last = done.output.splitlines()
    assert all(": queued as " in line for line in lines)
    assert (done.exit_code, last) == (0, "0 of 2 groups: suspend, 2 queued")
    log = json.loads(invoked("log --json").output)
    assert [(one["pipeline"], one["group"], one["result"]) for one in log] == [
        ("orders", "three", "queued"),
        ("orders", "two", "queued"),
    ]
    entries = (folder / "control" / "0000000001").read_text()
    (folder / "control" / "0000000001").write_text(entries.replace("two", "six"))
    changed = invoked("group suspend two --pipeline orders --actor ada --reason x")
    assert (changed.exit_code, "the file of the control log was changed" in changed.stderr) == (3, True)


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("group suspend two --pipeline orders --dry-run", "isn't running, and only a run of it can tell"),
        ("group suspend --all --pipeline orders --yes --reason x", "isn't running, and only a run of it can tell"),
        ("group suspend two --queue other --pipeline orders --reason x", "has no destination 'other'"),
        ("group reset two --next 99999999999999999999 --pipeline orders --reason x", "is out of range"),
        ("group abort --all --error x --pipeline orders --reason x", "--error can't choose groups of a pipeline"),
        ("groups --pipeline orders --by error", "--by can't be combined with --pipeline"),
    ],
)
def test_what_cannot_be_done_is_refused(folder, line, what):
    done = invoked(line)
    assert (done.exit_code, what in done.stderr) == (2, True), done.output
    assert not (folder / "control").exists()


def test_a_checkpoint_that_is_not_the_pipeline_s_is_refused(folder, tmp_path):
    (tmp_path / "other.yaml").write_text(
        FILE.replace("name: orders", f"name: other\ncheckpoint: {folder}"), encoding="utf-8"
    )
    other = invoked("pipeline stop other.yaml")
    assert (other.exit_code, "belongs to another pipeline: orders, not other" in other.stderr) == (3, True)
    (folder / "pipeline.json").write_text(json.dumps({"pipeline": "orders", "id": "x", "buckets": 2, "layout": 2}))
    former = invoked("group suspend two --pipeline orders --reason x")
    assert (former.exit_code, "commit 8473f540" in former.stderr) == (3, True)
    (folder / "pipeline.json").write_text("{")
    assert "the file is damaged" in invoked("log --pipeline orders").stderr
