"""A run that another one has superseded puts nothing in place any more, at whatever moment it was superseded."""

from __future__ import annotations

import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from seriatim.errors import CheckpointMismatch
from seriatim.spark.deliver import port as module
from seriatim.spark.deliver.outbox import Kept, Outbox
from seriatim.spark.deliver.port import Port
from tests.spark.deliver.test_deliver import numbers, staged

STEPS = 40


def superseding(monkeypatch, after, claim):
    """Another run claims the port before the given step of a publish; returns whether it has."""
    left, done = [after], []

    def step(real):
        def stepped(*args, **named):
            if left[0] == 0 and not done:
                done.append(True)
                claim()
            left[0] -= 1
            return real(*args, **named)

        return stepped

    monkeypatch.setattr(Path, "rename", step(Path.rename))
    monkeypatch.setattr(Path, "mkdir", step(Path.mkdir))
    monkeypatch.setattr(Path, "exists", step(Path.exists))
    monkeypatch.setattr(shutil, "rmtree", step(shutil.rmtree))
    monkeypatch.setattr(module, "sync_folder", step(module.sync_folder))
    return done


@pytest.mark.parametrize("goes_on", [False, True], ids=["it claims the port", "it puts the batch in place"])
@pytest.mark.parametrize("replayed", [False, True])
def test_superseded_at_any_step_a_batch_is_there_once_as_the_later_run_put_it(tmp_path, monkeypatch, replayed, goes_on):
    def supersede(new):
        new.claim("p", "id")
        if goes_on:
            new.publish(1, staged(new, {"part-00000.json": "2\n", "part-00001.json": "3\n4\n"}))

    refused = published = 0
    for after in range(STEPS):
        old = Port("orders", tmp_path / str(after), "json", fence=7)
        new = replace(old, fence=9)
        old.claim("p", "id")
        old.publish(0, staged(old, {"part-00000.json": "1\n"}))
        if replayed:
            old.publish(1, staged(old, {"part-00000.json": "2\n3\n"}))
        parts = staged(old, {"part-00000.json": "2\n3\n", "part-00001.json": "4\n"})
        with monkeypatch.context() as patched:
            claimed = superseding(patched, after, partial(supersede, new))
            try:
                old.publish(1, parts)
            except (CheckpointMismatch, OSError):
                refused += 1
                assert claimed
            else:
                published += 1
        if claimed and goes_on:
            assert numbers(new.root) == [1, 2, 3, 4]
        new.claim("p", "id")
        old.begin()
        with pytest.raises(CheckpointMismatch, match="a later run of this pipeline has taken over"):
            old.publish(1, staged(old, {"part-00000.json": "5\n"}))
        new.publish(1, staged(new, {"part-00000.json": "2\n", "part-00001.json": "3\n4\n"}))
        assert numbers(new.root) == [1, 2, 3, 4]
        with pytest.raises(CheckpointMismatch, match="a later run of this pipeline has taken over"):
            old.claim("p", "id")
        if not claimed:
            break
    assert refused > 1
    assert published > 1
    assert not claimed, "there are more steps"


def test_what_waits_in_an_outbox_is_not_touched_by_an_earlier_run(tmp_path):
    def outbox(fence):
        return Outbox(Port("orders", tmp_path / "waiting", "json", fence=fence), "p", "id")

    def put(box, batch, text):
        box.begin()
        box.port.staging.mkdir(exist_ok=True)
        (box.port.staging / "s").write_text(text)
        box.put(Kept(batch, 1, 0.0, "away"), [("s", "part-00000.json")])

    old = outbox(7)
    put(old, 0, "1\n")
    new = outbox(9)
    put(new, 1, "2\n")
    with pytest.raises(CheckpointMismatch, match="a later run of this pipeline has taken over"):
        put(old, 1, "3\n")
    with pytest.raises(CheckpointMismatch, match="a later run of this pipeline has taken over"):
        outbox(7)
    assert [one.batch for one in outbox(9).kept] == [0, 1]
    assert [text.read_text() for text in sorted((tmp_path / "waiting").glob("batch=*/part*"))] == ["1\n", "2\n"]


def test_a_folder_of_a_run_without_a_number_is_taken_over(tmp_path):
    before = Port("orders", tmp_path / "out", "json")
    before.claim("p", "id")
    before.publish(0, staged(before, {"part-00000.json": "1\n"}))
    now = replace(before, fence=9)
    now.claim("p", "id")
    now.publish(1, staged(now, {"part-00000.json": "2\n"}))
    assert numbers(now.root) == [1, 2]
    with pytest.raises(CheckpointMismatch, match="a later run"):
        before.claim("p", "id")
