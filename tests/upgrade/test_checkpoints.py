"""A stored checkpoint: a run goes on from it, also in other buckets, and what it can't read it refuses by name."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from seriatim.cli.main import main
from seriatim.errors import CheckpointMismatch, SeriatimError
from seriatim.pipeline.files.pipeline_file import load
from seriatim.runtime.pipelines.checkpoint import LAYOUT
from seriatim.runtime.pipelines.move import move
from seriatim.runtime.pipelines.run import run
from seriatim.runtime.pipelines.tally import Tally
from seriatim.spark.state.manifest import BY_KEY
from tests.delivered import table_of
from tests.soak import full
from tests.upgrade.checkpoint import PRESENT, RESTING, STORED, put, stored, unpack

pytestmark = pytest.mark.usefixtures("spark")

FORMS = sorted(path.name.split(".")[0] for path in STORED.glob("*.tar.xz"))

#: What comes afterwards: holes are filled, sets completed, numbers come once more.
AFTERWARDS = [
    *[("fifo", "a", 3), ("fifo", "c", 1), ("loose", "a", 2)],
    *[("standard", "hole", 2), ("standard", "hole", 5), ("standard", "hole", 3), ("standard", "begins later", 1)],
    *[("standard", "done", 2), ("standard", "late", 2), ("skipping", "a", 10), ("skipping", "a", 6)],
    *[("best", "a", 4), ("sets", "part", 2), ("sets", "whole", 1)],
    *[("rests", customer, number) for customer, number in (("r1", 3), ("r2", 2), ("r9", 1), ("r9", 2))],
    *[("anew", "a", 1), ("anew", "b", 1)],
]


def released(folder, queue):
    """By group the numbers that were released, in order."""
    found = {}
    for row in table_of(folder / "out" / queue, "json").to_pylist():
        found.setdefault(row["customer"], []).append(int(row["version"]))
    return found


def test_the_present_form_is_stored(tmp_path):
    assert PRESENT in FORMS
    unpack(stored(PRESENT), tmp_path)
    made = json.loads((tmp_path / "checkpoint" / "pipeline.json").read_text())
    assert (made["layout"], made["spread"]) == (LAYOUT, BY_KEY)
    tally = Tally(tmp_path / "checkpoint" / "tally.json").standing
    assert tally.count("rests", "released") == RESTING + 1


#: A stored form and to how many buckets it is moved; it has 2.
MOVES = [(form, buckets) for form in FORMS for buckets in (2, 1, 5)]


@pytest.mark.soak
@pytest.mark.parametrize(("form", "buckets"), MOVES if full() else [(PRESENT, 2), (PRESENT, 5)])
def test_a_run_goes_on_from_a_stored_checkpoint(form, buckets, tmp_path):
    unpack(stored(form), tmp_path)
    pipeline = in_buckets(tmp_path, buckets)
    if buckets != 2:
        finish_batch(tmp_path)
        done = CliRunner().invoke(main, ["pipeline", "move", str(tmp_path / "pipeline.yaml")])
        assert (done.exit_code, done.stderr) == (0, "")
        assert f"moved {tmp_path}/checkpoint from 2 buckets to {buckets}" in done.stdout
    assert released(tmp_path, "standard")["hole"] == [1]
    nothing = run(pipeline, once=True)
    # It gave tickets by an operator of their own.
    stamped = json.loads((tmp_path / "checkpoint" / "pipeline.json").read_text())["stamped"]
    assert stamped["by_counts"]
    assert stamped["following"].keys() == {"crm", "shop"}
    assert min(stamped["following"].values()) > 1
    assert {account.arrived for account in nothing.accounts} == {0}
    held = {account.destination: account.held for account in nothing.accounts}
    resting = {"rests": 1, "anew": 0}
    assert held == {"fifo": 0, "standard": 4, "skipping": 1, "best": 3, "sets": 2, "loose": 0, **resting}

    put(tmp_path, AFTERWARDS)
    accounts = {account.destination: account for account in run(pipeline, finish=True).accounts}
    assert {name: (one.duplicate, one.late) for name, one in accounts.items() if one.duplicate or one.late} == {
        "standard": (2, 0),
        "skipping": (0, 1),
        "sets": (1, 0),
        "rests": (1, 0),
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
    at_rest = {f"r{number}": [1] for number in range(RESTING)}
    assert released(tmp_path, "rests") == at_rest | {"r1": [1, 2, 3], "r2": [1, 2, 3], "r9": [1, 2]}
    anew = table_of(tmp_path / "out" / "anew", "json").to_pylist()
    begun = sorted((row["customer"], row["incarnation"], row["ordinal"]) for row in anew)
    assert len(set(begun)) == len(begun) == 5
    assert {customer: [one for one, _, _ in begun].count(customer) for customer in "ab"} == {"a": 3, "b": 2}
    tickets = [row["ticket"]["number"] for row in table_of(tmp_path / "out" / "fifo", "json").to_pylist()]
    assert sorted(tickets) == list(range(1, len(tickets) + 1))
    assert not list((tmp_path / "checkpoint").glob("moved-*"))


def test_a_run_goes_on_where_a_damaged_last_commit_was_deleted(tmp_path):
    unpack(stored(PRESENT), tmp_path)
    pipeline, commit = load(tmp_path / "pipeline.yaml"), tmp_path / "checkpoint" / "query" / "commits" / "4"
    commit.write_bytes(b"")
    put(tmp_path, [("standard", "hole", 2)])
    with pytest.raises(CheckpointMismatch, match="delete it: then Spark takes batch 4 as not committed"):
        run(pipeline, once=True)
    commit.unlink()
    run(pipeline, once=True)
    assert released(tmp_path, "standard")["hole"] == [1, 2, 3, 4]


def content(folder):
    return {file.relative_to(folder): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


def finish_batch(folder):
    """The last batch as committed. In the stored checkpoint it is one without messages, which may be left."""
    query = folder / "checkpoint" / "query"
    for number in {int(one.name) for one in (query / "offsets").iterdir()} - {
        int(one.name) for one in (query / "commits").iterdir()
    }:
        (query / "offsets" / str(number)).unlink()


def edited(**changes):
    def change(file):
        file.write_text(json.dumps({**json.loads(file.read_bytes()), **changes}), encoding="utf-8")

    return change


@pytest.mark.parametrize("buckets", [2, 4])
@pytest.mark.parametrize(
    ("name", "damage", "what"),
    [
        ("pipeline.json", lambda file: file.write_bytes(b"["), "damaged"),
        ("pipeline.json", edited(layout=2), "has layout 2, this version of seriatim reads 3"),
        ("pipeline.json", Path.unlink, "there is no checkpoint"),
    ],
)
def test_a_move_that_cannot_be_done_changes_nothing(name, damage, what, buckets, tmp_path):
    unpack(stored(PRESENT), tmp_path)
    finish_batch(tmp_path)
    damage(tmp_path / "checkpoint" / name)
    before = content(tmp_path / "checkpoint" / "query")
    with pytest.raises(SeriatimError) as caught:
        move(in_buckets(tmp_path, buckets))
    assert what in str(caught.value)
    assert content(tmp_path / "checkpoint" / "query") == before


def test_a_move_needs_a_batch_that_is_finished(tmp_path):
    unpack(stored(PRESENT), tmp_path)
    finish_batch(tmp_path)
    last = max((tmp_path / "checkpoint/query/commits").iterdir(), key=lambda file: int(file.name))
    last.unlink()
    with pytest.raises(CheckpointMismatch, match=f"batch {last.name} was begun and not finished"):
        move(in_buckets(tmp_path, 4))


def in_buckets(folder, buckets):
    """The stored pipeline, which has 2 buckets, with another number."""
    file = folder / "pipeline.yaml"
    file.write_text(file.read_text().replace("buckets: 2", f"buckets: {buckets}"))
    return load(file)


def test_a_move_to_another_number_of_buckets_needs_the_destinations_of_the_checkpoint(tmp_path):
    unpack(stored(PRESENT), tmp_path)
    finish_batch(tmp_path)
    pipeline = in_buckets(tmp_path, 4)
    with pytest.raises(CheckpointMismatch, match="its buckets are 2, yours are 4") as caught:
        run(pipeline, once=True)
    assert f"seriatim pipeline move {tmp_path}/pipeline.yaml" in caught.value.remedy
    before = content(tmp_path / "checkpoint")
    with pytest.raises(CheckpointMismatch, match="other destinations than the checkpoint: destination 'fifo'"):
        move(replace(pipeline, route=pipeline.route[1:]))
    assert content(tmp_path / "checkpoint") == before


def test_a_move_tells_as_json_what_it_did(tmp_path):
    unpack(stored(PRESENT), tmp_path)
    finish_batch(tmp_path)
    in_buckets(tmp_path, 4)
    told = []
    for _ in range(2):
        done = CliRunner().invoke(main, ["pipeline", "move", "--json", str(tmp_path / "pipeline.yaml")])
        assert done.exit_code == 0
        told.append(json.loads(done.stdout))
    root = str(tmp_path / "checkpoint")
    assert told == [
        {"checkpoint": root, "from_buckets": 2, "buckets": 4, "moved": True},
        {"checkpoint": root, "from_buckets": 4, "buckets": 4, "moved": False},
    ]


UNREADABLE = [
    ("pipeline.json", edited(layout=LAYOUT + 1), f"the checkpoint has layout {LAYOUT + 1}, this version of seriatim reads {LAYOUT}"),
    ("pipeline.json", edited(layout=LAYOUT - 1), "convert it with commit 8473f540 of seriatim"),
    ("pipeline.json", edited(spread=None), "convert it with commit 8473f540 of seriatim"),
    ("pipeline.json", edited(layout=None), "the checkpoint has layout None"),
    ("pipeline.json", edited(ordering=None), "damaged"),
    ("pipeline.json", edited(buckets="2"), "damaged"),
    ("pipeline.json", lambda file: file.write_bytes(b"["), "damaged"),
    ("pipeline.json", Path.unlink, "doesn't say of which pipeline it is"),
    ("tally.json", lambda file: file.write_bytes(b"{"), "tally"),
    ("query/metadata", lambda file: file.write_bytes(b"x"), "metadata: the file is damaged"),
    ("query/commits/4", lambda file: file.write_bytes(b""), "commits/4: the file is damaged"),
    ("query/offsets/5", lambda file: file.write_bytes(b"v1\n{"), "offsets/5: the file is damaged"),
    ("query/state", shutil.rmtree, "state"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "damage", "what"), UNREADABLE, ids=lambda value: value if isinstance(value, str) else ""
)
def test_what_cannot_be_read_is_refused_by_name(name, damage, what, tmp_path):
    unpack(stored(PRESENT), tmp_path)
    damage(tmp_path / "checkpoint" / name)
    put(tmp_path, [("standard", "hole", 2)])
    with pytest.raises(SeriatimError) as caught:
        run(load(tmp_path / "pipeline.yaml"), once=True)
    assert what in str(caught.value)
    assert isinstance(caught.value, CheckpointMismatch) or name.startswith("query")
    assert released(tmp_path, "standard")["hole"] == [1]
