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


def test_a_batch_that_changes_nothing_is_counted_too(file):
    tally = Tally(file)
    tally.add(delivered(0, 5))
    tally.add(delivered(1, 0))
    tally.add(delivered(2, 0))
    replay = Tally(file)
    replay.add(delivered(2, 0))
    replay.add(delivered(3, 1))
    assert Tally(file).standing.count("a", "released") == 6


def begun(file, begun, committed):
    """The tally of a run that begins with such a checkpoint."""
    tally = Tally(file)
    tally.begin(begun=begun, committed=committed)
    return tally


def test_only_one_that_was_there_is_lost(file):
    assert not begun(file, -1, -1).is_lost
    assert not begun(file, 0, -1).is_lost  # killed in its first batch
    file.unlink()
    assert begun(file, 0, -1).is_lost


@pytest.mark.parametrize(
    ("last", "committed", "is_lost"),
    [(4, 4, False), (4, 3, False), (5, 4, False), (3, 2, False), (5, 5, True), (2, 2, True)],
    ids=["all done", "one to do", "its commit to do", "its begin was lost", "of an older batch", "of a newer one"],
)
def test_one_that_is_not_of_the_checkpoint_is_noticed_and_goes_on(file, caplog, last, committed, is_lost):
    tally = Tally(file)
    for batch in range(5):
        tally.add(delivered(batch, 1))
    again = begun(file, last, committed)
    assert again.is_lost is is_lost
    assert [record.event for record in caplog.records] == ["tally_lost"] * is_lost
    assert (f"is that of batch 4, and batch {committed} is the last" in caplog.text) is is_lost
    again.add(delivered(committed + 1, 2, held=3))
    # Where it is the last batch once more, that counts once.
    assert again.standing.count("a", "released") == (7 if is_lost or committed == 4 else 4 + 2)
    assert not begun(file, committed + 1, committed + 1).is_lost


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
