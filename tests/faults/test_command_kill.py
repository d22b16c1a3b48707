"""A driver that is killed between a command and its answer: the next run obeys it, once, and answers it once."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from seriatim.pipeline.files.pipeline_file import load
from seriatim.runtime.pipelines.run import run
from tests.command import environment
from tests.runtime.pipelines.test_commands import FILE, by_id, command, delivered, put, told

pytestmark = pytest.mark.usefixtures("spark")

#: Runs a pipeline, and kills itself in the batch that obeys: when it is done and not answered, or when it
#: is answered and not committed.
DRIVER = """
import os, signal, sys
from seriatim.pipeline.files.pipeline_file import load
from seriatim.runtime.pipelines import answers, run
from seriatim.spark.control.operator_log import OperatorLog
from seriatim.spark.deliver.stage import Sink

file, where = sys.argv[1:]
keep, deliver = OperatorLog.keep, Sink.__call__

def kill():
    os.kill(os.getpid(), signal.SIGKILL)

def delivered(self, frame, batch):
    deliver(self, frame, batch)
    if where == "answered" and batch == 1:
        kill()

def kept(self, batch, entries):
    if where == "obeyed" and entries:
        kill()
    keep(self, batch, entries)

OperatorLog.keep, Sink.__call__ = kept, delivered
run.run(load(file), once=True)
"""


@pytest.mark.parametrize("where", ["obeyed", "answered"])
def test_a_driver_that_is_killed_obeys_once(tmp_path, where):
    (tmp_path / "in").mkdir()
    (tmp_path / "pipeline.yaml").write_text(FILE.format(folder=tmp_path, options=""))
    declared = load(tmp_path / "pipeline.yaml")
    put(tmp_path, "a", [("hole", 1), ("hole", 3), ("hole", 5), ("held", 2), ("stopped", 1), ("again", 1)])
    run(declared, once=True)
    told(
        tmp_path,
        command("skip_hole", "hole", "h"),
        command("abort", "held", "a"),
        command("suspend", "stopped", "s"),
        command("suspend", "again", "s1"),
        command("resume", "again", "r1"),
    )
    put(tmp_path, "b", [("hole", 4), ("held", 1), ("stopped", 2), ("again", 2)])
    killed = subprocess.run(
        [sys.executable, "-c", DRIVER, str(tmp_path / "pipeline.yaml"), where],
        env=environment(), capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert by_id(tmp_path).keys() == (set("has") | {"s1", "r1"} if where == "answered" else set())
    # What comes meanwhile is of the next batch.
    told(tmp_path, command("resume", "stopped", "later"))
    put(tmp_path, "c", [("stopped", 3)])
    run(declared, once=True)
    found = by_id(tmp_path)
    assert {one.id: (one.result, one.batch) for one in found.values()} == dict.fromkeys(
        ("h", "a", "s", "s1", "r1"), ("done", 1)
    ) | {"later": ("done", 2)}
    assert (found["h"].released, found["a"].set_aside, found["s"].after) == (1, 1, "suspended")
    assert delivered(tmp_path) == {
        "hole": [(1, 1), (3, 2), (4, 3), (5, 4)],
        "held": [(1, 1)],
        "stopped": [(1, 1), (2, 2), (3, 3)],
        "again": [(1, 1), (2, 2)],
    }
