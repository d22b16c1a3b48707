"""A driver that is killed at a step of what an operator has told it: the next one finishes that, and nothing is lost or done twice."""

from __future__ import annotations

import random
import signal
import subprocess
import sys

import pytest

from seriatim.pipeline.files.pipeline_file import load
from seriatim.runtime.pipelines.move import move
from seriatim.runtime.pipelines.run import run
from seriatim.runtime.pipelines.set_aside import read_set_aside
from seriatim.runtime.pipelines.tally import Tally
from tests.command import environment
from tests.delivered import table_of
from tests.runtime.pipelines.test_commands import by_id, command, put, told
from tests.soak import full, seed

pytestmark = pytest.mark.usefixtures("spark")

FILE = """
name: orders
{head}
checkpoint: {folder}/checkpoint
buckets: {buckets}
trigger: 0s
receive:
  - location: crm
    source: {{format: json, path: {folder}/in, options: {{maxFilesPerTrigger: 1}}}}
    promote: {{customer: $.customer, version: {{path: $.version, type: long}}}}
route:
  - to: ordered
    where: "customer NOT LIKE 'timed%'"
    resequence: {{policy: standard, group: customer, sequence: version}}
    deliver: {{format: json, path: {folder}/out/ordered}}
  - to: {other}
    where: "{where}"
    resequence: {{policy: standard, group: customer, sequence: version{options}}}
    deliver: {{format: csv, path: {folder}/out/{other}}}
"""

#: Runs or moves a pipeline, and kills itself: ahead of a step, or behind it.
DRIVER = """
import os, signal, sys
from seriatim.pipeline.files.pipeline_file import load
from seriatim.runtime.pipelines import move, run
from seriatim.runtime.pipelines.checkpoint import Checkpoint
from seriatim.runtime.pipelines.tally import Tally
from seriatim.spark.control.operator_log import OperatorLog
from seriatim.spark.deliver import abandoned
from seriatim.spark.deliver.stage import Sink

file, step, *abandon = sys.argv[1:]
when, where = step.split(" ", 1)
steps = {
    "answers are kept": (OperatorLog, "keep"),
    "a batch is counted": (Tally, "add"),
    "a batch is delivered": (Sink, "__call__"),
    "rows are set aside": (abandoned, "_put"),
    "a port is emptied": (run, "set_aside_waiting"),
    "a start is noted": (Checkpoint, "remember"),
    "buckets are woken": (Checkpoint, "note_wake"),
    "a state is cut": (move, "cut_state"),
    "a move is noted": (Checkpoint, "note_move"),
}

def killing(do):
    def done(*args, **options):
        if when == "behind":
            do(*args, **options)
        os.kill(os.getpid(), signal.SIGKILL)
    return done

owner, name = steps[where]
setattr(owner, name, killing(getattr(owner, name)))
move.move(load(file)) if "move" in abandon else run.run(load(file), once=True, abandon=abandon)
"""


def declared(folder, buckets=3, other="timed", where="customer LIKE 'timed%'", options="", head=""):
    text = FILE.format(folder=folder, buckets=buckets, other=other, where=where, options=options, head=head)
    (folder / "pipeline.yaml").write_text(text)
    return load(folder / "pipeline.yaml")


def killed_at(folder, step, *options):
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, str(folder / "pipeline.yaml"), step, *options],
        env=environment(), capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL, done.stderr


def steps(folder, every):
    """All steps at full size, else one of them; each with a folder of its own."""
    for number, step in enumerate(every if full() else [random.Random(seed()).choice(every)]):
        at = folder / str(number)
        (at / "in").mkdir(parents=True)
        yield at, step


def delivered(folder, destination="ordered", kind="json"):
    """Per customer the versions and ordinals."""
    found = {}
    for row in table_of(folder / "out" / destination, kind).to_pylist():
        found.setdefault(row["group"], []).append((int(row["version"]), int(row["ordinal"])))
    return found


def numbered(*versions):
    return [(version, ordinal) for ordinal, version in enumerate(versions, start=1)]


@pytest.mark.proves("a batch with operators' commands and a time-out is done once though its driver is killed")
@pytest.mark.soak
def test_a_batch_with_commands_and_a_tick_is_done_once(tmp_path, figures):
    for folder, step in steps(tmp_path, ["ahead answers are kept", "behind a batch is delivered"]):
        with_commands_and_a_tick(folder, step)
        figures(f"commands and a tick: killed {step}")


def with_commands_and_a_tick(tmp_path, step):
    put(
        tmp_path,
        "a",
        [("hole", 1), ("hole", 3), ("hole", 5), ("held", 2), ("stopped", 1), ("again", 1), ("timed", 1), ("timed", 3)],
    )
    run(declared(tmp_path, options=", on_hole: skip, hole_timeout: 1h"), once=True)
    told(
        tmp_path,
        command("skip_hole", "hole", "h"),
        command("abort", "held", "a"),
        command("suspend", "stopped", "s"),
        command("suspend", "again", "s1"),
        command("resume", "again", "r1"),
    )
    put(tmp_path, "b", [("hole", 4), ("held", 1), ("stopped", 2), ("again", 2)])
    pipeline = declared(tmp_path, options=", on_hole: skip, hole_timeout: 1ms")  # so its time-out is due in that batch
    killed_at(tmp_path, step)
    is_answered = step == "behind a batch is delivered"
    assert by_id(tmp_path).keys() == (set("has") | {"s1", "r1"} if is_answered else set())
    # What comes meanwhile is of the next batch.
    told(tmp_path, command("resume", "stopped", "later"))
    put(tmp_path, "c", [("stopped", 3), ("timed", 2)])
    run(pipeline, once=True)
    found = by_id(tmp_path)
    assert {one.id: (one.result, one.batch) for one in found.values()} == dict.fromkeys(
        ("h", "a", "s", "s1", "r1"), ("done", 1)
    ) | {"later": ("done", 2)}
    assert (found["h"].released, found["a"].set_aside, found["s"].after) == (1, 1, "suspended")
    assert delivered(tmp_path) == {
        "hole": numbered(1, 3, 4, 5),
        "held": numbered(1),
        "stopped": numbered(1, 2, 3),
        "again": numbered(1, 2),
    }
    assert delivered(tmp_path, "timed", "csv") == {"timed": numbered(1, 3)}
    aside = [
        (one.group, one.sequence, one.disposition) for one in read_set_aside(tmp_path / "checkpoint" / "set-aside")
    ]
    assert sorted(aside) == [("held", 2, "dead"), ("timed", 2, "late")]


@pytest.mark.proves("a destination is abandoned once though its driver is killed at a step")
@pytest.mark.soak
def test_a_destination_is_abandoned_once(tmp_path, figures):
    for folder, step in steps(
        tmp_path,
        [
            *("behind rows are set aside", "behind a port is emptied", "behind a start is noted"),
            *("behind buckets are woken", "ahead a batch is counted", "behind a batch is delivered"),
        ],
    ):
        keys = [f"k{number}" for number in range(9)]
        port, set_aside = folder / "out" / "gone", folder / "aside"
        port.parent.mkdir()
        for file in (port, set_aside):
            file.write_text("no folder")  # so what is released for the one, and set aside in the other, waits
        head = f"set_aside: {set_aside}"
        put(folder, "a", [*((key, number) for key in keys for number in (1, 3)), ("k0", 1)])
        put(folder, "b", [(key, 4) for key in keys])
        run(declared(folder, other="gone", where="TRUE", head=head), once=True)
        set_aside.unlink()
        pipeline = declared(folder, other="more", where="FALSE", options=", start: first", head=head)
        put(folder, "c", [(key, 2) for key in keys[:5]])
        killed_at(folder, step, "gone")
        run(pipeline, once=True, abandon=["gone"])
        whole = {key: numbered(*((1, 2, 3, 4) if key in keys[:5] else (1,))) for key in keys}
        assert delivered(folder) == whole, step
        aside = [one for one in read_set_aside(set_aside) if one.destination == "gone"]
        assert [(one.group, one.sequence) for one in aside if one.disposition == "duplicate"] == [("k0", 1)], step
        dead = [(one.group, int(one.sequence)) for one in aside if one.disposition == "dead"]
        assert sorted(dead) == sorted((key, number) for key in keys for number in (1, 3, 4)), step
        assert len({one.message_id for one in aside}) == len(aside)
        assert not (folder / "checkpoint" / "waiting" / "gone").exists()
        standing = Tally(folder / "checkpoint" / "tally.json").standing
        assert (standing.count("gone", "released"), standing.count("gone", "dead"), standing.held("gone")) == (9, 18, 0)
        figures(f"abandoning a destination: killed {step}")


@pytest.mark.proves("buckets are moved once though the driver, or `pipeline move`, is killed at a step")
@pytest.mark.soak
def test_buckets_are_moved_once(tmp_path, figures):
    for folder, step in steps(
        tmp_path,
        [
            *("behind a state is cut", "behind a move is noted", "ahead buckets are woken", "behind buckets are woken"),
            *("ahead a batch is counted", "behind a batch is delivered"),
        ],
    ):
        keys = [f"k{number}" for number in range(9)]
        put(folder, "a", [(key, number) for key in keys for number in (1, 3, 4)])
        run(declared(folder), once=True)
        pipeline = declared(folder, buckets=5)
        put(folder, "b", [(key, 2) for key in keys[:5]])
        if "cut" in step or "move" in step:
            killed_at(folder, step, "move")
            assert move(pipeline).buckets == 5
        else:
            move(pipeline)
            killed_at(folder, step)
        run(pipeline, once=True)
        put(folder, "c", [(key, 2) for key in keys])
        last = run(pipeline, once=True)
        assert delivered(folder) == {key: numbered(1, 2, 3, 4) for key in keys}, step
        assert (last.accounts[0].duplicate, last.accounts[0].held) == (5, 0)
        standing = Tally(folder / "checkpoint" / "tally.json").standing
        assert (standing.count("ordered", "released"), standing.held("ordered")) == (36, 0)
        assert not list((folder / "checkpoint").glob("moved-*"))
        figures(f"moving buckets: killed {step}")
