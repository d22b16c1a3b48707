"""Checkpoints that earlier builds have made: this build goes on from them, and what it can't read it refuses by name."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from seriatim.errors import CheckpointMismatch, SeriatimError
from seriatim.pipeline.files.pipeline_file import load
from seriatim.runtime.pipelines.checkpoint import LAYOUT
from seriatim.runtime.pipelines.run import run
from tests.delivered import table_of
from tests.upgrade.checkpoint import STORED, put, unpack

pytestmark = pytest.mark.usefixtures("spark")

LAYOUTS = sorted(int(path.name.split(".")[0]) for path in STORED.glob("*.tar.xz"))

#: What comes afterwards: holes are filled, sets completed, numbers come once more.
AFTERWARDS = [
    *[("fifo", "a", 3), ("fifo", "c", 1), ("loose", "a", 2)],
    *[("standard", "hole", 2), ("standard", "hole", 5), ("standard", "hole", 3), ("standard", "begins later", 1)],
    *[("standard", "done", 2), ("standard", "late", 2), ("skipping", "a", 10), ("skipping", "a", 6)],
    *[("best", "a", 4), ("sets", "part", 2), ("sets", "whole", 1)],
]


def released(folder, queue):
    """By group the numbers that were released, in order."""
    found = {}
    for row in table_of(folder / "out" / queue, "json").to_pylist():
        found.setdefault(row["customer"], []).append(int(row["version"]))
    return found


def test_the_present_layout_is_stored():
    assert max(LAYOUTS) == LAYOUT


@pytest.mark.parametrize("layout", [layout for layout in LAYOUTS if layout != LAYOUT])
def test_a_start_on_an_older_layout_is_refused_and_changes_nothing(layout, tmp_path):
    unpack(STORED / f"{layout}.tar.xz", tmp_path)
    put(tmp_path, AFTERWARDS)
    before = {file: file.read_bytes() for file in (tmp_path / "checkpoint" / "query").rglob("*") if file.is_file()}
    with pytest.raises(CheckpointMismatch) as caught:
        run(load(tmp_path / "pipeline.yaml"), once=True)
    assert f"the checkpoint has layout {layout}, this version of seriatim reads {LAYOUT}" in str(caught.value)
    assert f"seriatim pipeline move {tmp_path}/pipeline.yaml" in str(caught.value)
    assert {file: file.read_bytes() for file in before} == before
    assert released(tmp_path, "standard")["hole"] == [1]


def test_a_run_goes_on_from_a_stored_checkpoint(tmp_path):
    unpack(STORED / f"{LAYOUT}.tar.xz", tmp_path)
    pipeline = load(tmp_path / "pipeline.yaml")
    assert released(tmp_path, "standard")["hole"] == [1]
    nothing = run(pipeline, once=True)
    assert {account.arrived for account in nothing.accounts} == {0}
    held = {account.destination: account.held for account in nothing.accounts}
    assert held == {"fifo": 0, "standard": 4, "skipping": 1, "best": 3, "sets": 2, "loose": 0}

    put(tmp_path, AFTERWARDS)
    accounts = {account.destination: account for account in run(pipeline, finish=True).accounts}
    assert {name: (one.duplicate, one.late) for name, one in accounts.items() if one.duplicate or one.late} == {
        "standard": (2, 0),
        "skipping": (0, 1),
        "sets": (1, 0),
    }
    assert {name: one.held for name, one in accounts.items() if one.held} == {}
    assert released(tmp_path, "fifo") == {"a": [1, 2, 3], "b": [1, 2], "c": [1]}
    assert released(tmp_path, "standard") == {
        "done": [1, 2], "late": [1, 2], "hole": [1, 2, 3, 4, 5, 6], "begins later": [1, 2]
    }  # fmt: skip
    assert released(tmp_path, "skipping") == {"a": [7, 8, 9, 10, 11]}
    assert released(tmp_path, "best") == {"a": [1, 2, 3, 4]}
    assert released(tmp_path, "sets") == {"whole": [1, 2, 3], "part": [1, 2, 3]}
    assert released(tmp_path, "loose") == {"a": [1, 2]}
    tickets = [row["ticket"]["number"] for row in table_of(tmp_path / "out" / "fifo", "json").to_pylist()]
    assert sorted(tickets) == list(range(1, len(tickets) + 1))


def test_a_run_goes_on_where_a_damaged_last_commit_was_deleted(tmp_path):
    unpack(STORED / f"{LAYOUT}.tar.xz", tmp_path)
    pipeline, commit = load(tmp_path / "pipeline.yaml"), tmp_path / "checkpoint" / "query" / "commits" / "4"
    commit.write_bytes(b"")
    put(tmp_path, [("standard", "hole", 2)])
    with pytest.raises(CheckpointMismatch, match="delete it: then Spark takes batch 4 as not committed"):
        run(pipeline, once=True)
    commit.unlink()
    run(pipeline, once=True)
    assert released(tmp_path, "standard")["hole"] == [1, 2, 3, 4]


def edited(**changes):
    def change(file):
        file.write_text(json.dumps({**json.loads(file.read_bytes()), **changes}), encoding="utf-8")

    return change


UNREADABLE = [
    ("pipeline.json", edited(layout=LAYOUT + 1), f"the checkpoint has layout {LAYOUT + 1}, this version of seriatim reads {LAYOUT}"),
    ("pipeline.json", edited(layout=None), "the checkpoint has layout None"),
    ("pipeline.json", edited(buckets="2"), "damaged"),
    ("pipeline.json", lambda file: file.write_bytes(b"["), "damaged"),
    ("pipeline.json", Path.unlink, "doesn't say of which pipeline it is"),
    ("tally.json", lambda file: file.write_bytes(b"{"), "tally"),
    ("query/metadata", lambda file: file.write_bytes(b"x"), "Unrecognized token 'x'"),
    ("query/commits/4", lambda file: file.write_bytes(b""), "commits/4: the file is damaged"),
    ("query/offsets/5", lambda file: file.write_bytes(b"v1\n{"), "offsets/5: the file is damaged"),
    ("query/state", shutil.rmtree, "state"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "damage", "what"), UNREADABLE, ids=lambda value: value if isinstance(value, str) else ""
)
def test_what_cannot_be_read_is_refused_by_name(name, damage, what, tmp_path):
    unpack(STORED / f"{LAYOUT}.tar.xz", tmp_path)
    damage(tmp_path / "checkpoint" / name)
    put(tmp_path, [("standard", "hole", 2)])
    with pytest.raises(SeriatimError) as caught:
        run(load(tmp_path / "pipeline.yaml"), once=True)
    assert what in str(caught.value)
    assert isinstance(caught.value, CheckpointMismatch) or name.startswith("query")
    assert released(tmp_path, "standard")["hole"] == [1]
