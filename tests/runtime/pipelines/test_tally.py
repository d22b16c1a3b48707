"""The tally counts every batch once, also one that runs again."""

from __future__ import annotations

import json

import pytest

from seriatim.errors import CheckpointMismatch, InvariantBroken
from seriatim.runtime.pipelines.progress import Account, RunSummary
from seriatim.runtime.pipelines.tally import Tally
from seriatim.spark.deliver.stage import Delivered


def delivered(batch, released, held=None, bucket=0):
    reports = () if held is None else (json.dumps({"bucket": bucket, "held": {"a": held}, "holes": {"a": 1}}),)
    return Delivered(batch, {("a", "released"): released} if released else {}, reports)


@pytest.fixture
def file(tmp_path):
    return tmp_path / "tally.json"


def test_batches_add_up_and_survive(file):
    tally = Tally(file)
    tally.add(delivered(0, 5, held=2))
    tally.add(delivered(1, 3, held=4, bucket=1))
    assert tally.standing.count("a", "released") == 8
    again = Tally(file)
    assert again.standing == tally.standing
    assert (again.standing.held("a"), again.standing.holes(), again.standing.held("b")) == (6, 2, 0)


def test_a_replayed_batch_counts_once(file):
    Tally(file).add(delivered(0, 5, held=1))
    Tally(file).add(delivered(1, 3, held=2))
    replay = Tally(file)
    replay.add(delivered(1, 3, held=2))
    assert replay.standing.count("a", "released") == 8
    assert (replay.opening.count("a", "released"), replay.opening.held("a")) == (5, 1)
    assert Tally(file).standing.count("a", "released") == 8


def test_a_batch_that_changes_nothing_is_not_written(file):
    tally = Tally(file)
    tally.add(delivered(0, 5))
    before = file.stat().st_ino
    tally.add(delivered(1, 0))
    tally.add(delivered(2, 0))
    assert file.stat().st_ino == before
    replay = Tally(file)
    replay.add(delivered(2, 0))
    replay.add(delivered(3, 1))
    assert Tally(file).standing.count("a", "released") == 6


def test_only_one_that_was_there_is_lost(file):
    first = Tally(file)
    first.begin(begun=False)
    killed_in_its_first_batch = Tally(file)
    killed_in_its_first_batch.begin(begun=True)
    assert not killed_in_its_first_batch.is_lost
    file.unlink()
    again = Tally(file)
    again.begin(begun=True)
    assert (first.is_lost, again.is_lost) == (False, True)


def test_what_stood_after_each_batch(file):
    tally = Tally(file)
    tally.add(delivered(0, 5))
    tally.add(delivered(1, 3))
    assert tally.after(0).count("a", "released") == 5
    assert tally.after(2) is None


def test_a_damaged_tally_is_refused(file):
    file.write_text("{}")
    with pytest.raises(CheckpointMismatch, match="the tally is damaged"):
        Tally(file)


def test_the_law_is_checked():
    good = Account(
        "a", held_before=2, arrived=10, released=5, held=1, late=1, duplicate=2, invalid=1, rejected=1, dead=1
    )
    RunSummary("p", "once", 1.0, 1, (good,), 0).check()
    bad = Account("b", arrived=10, released=9)
    with pytest.raises(InvariantBroken, match="destination b: the law of conservation is broken by 1"):
        RunSummary("p", "once", 1.0, 1, (good, bad), 0).check()
