"""The active one of two runs of a pipeline is killed at a step of a delivery: the other one goes on behind it, and nothing is lost or done twice."""

from __future__ import annotations

import random
import signal
import subprocess
import sys

import pytest

from seriatim.regions.journal.journal import Journal
from seriatim.runtime.pipelines.lease import output_table
from seriatim.runtime.pipelines.run import run
from tests.command import environment
from tests.regions.journal.given import let_pass
from tests.runtime.pipelines.test_claims import in_table, pipeline, whole
from tests.runtime.pipelines.test_regions import put
from tests.soak import full, seed

pytestmark = pytest.mark.usefixtures("spark")

#: Runs a pipeline, and kills itself: ahead of a step of its second batch's delivery, or behind it.
DRIVER = """
import os, signal, sys
from seriatim.pipeline.files.pipeline_file import load
from seriatim.regions.journal.pipelines import Pipelines
from seriatim.runtime.pipelines.run import run
from seriatim.spark.deliver.outbox import Outbox

file, step = sys.argv[1:]
when, where = step.split(" ", 1)
owner, name = {"rows are inserted": (Pipelines, "deliver"), "the outbox is emptied": (Outbox, "drop")}[where]
do = getattr(owner, name)

def killing(*args, **options):
    if when == "behind":
        do(*args, **options)
    os.kill(os.getpid(), signal.SIGKILL)

setattr(owner, name, killing)
run(load(file), once=True)
"""
STEPS = (
    "ahead rows are inserted",
    "behind rows are inserted",
    "ahead the outbox is emptied",
    "behind the outbox is emptied",
)


@pytest.mark.proves("the run of the other region goes on behind a delivery at which the active one was killed")
@pytest.mark.soak
def test_the_other_region_goes_on_where_the_active_run_was_killed(tmp_path, box, monkeypatch, figures):
    monkeypatch.setenv("JOURNAL", box.dsn)
    steps = STEPS if full() else (random.Random(seed()).choice(STEPS[:3]),)
    with Journal.open(box.dsn) as journal:
        for number, step in enumerate(steps):
            folder = tmp_path / str(number)
            for region in ("a", "b"):
                (folder / region).mkdir(parents=True)
            a, b = pipeline(folder, "a"), pipeline(folder, "b")
            with journal.transaction() as tx:
                tx.connection.execute("DROP TABLE IF EXISTS parcels")
                tx.connection.execute("DELETE FROM seriatim_journal.delivered")
                tx.connection.execute(output_table(a, "parcels").made_by)
                tx.connection.execute("ALTER TABLE parcels ADD COLUMN place serial")
            put(folder, "a", 1, 1, 2, 3)
            put(folder, "b", 2, 2, 3, 4)
            done = subprocess.run(
                [sys.executable, "-c", DRIVER, str(folder / "in-a.yaml"), step],
                env={**environment(), "JOURNAL": box.dsn}, capture_output=True, text=True, check=False, timeout=300,
            )  # fmt: skip
            assert done.returncode == -signal.SIGKILL, done.stderr
            assert in_table(journal) == ([] if step == STEPS[0] else whole(4))
            let_pass(journal, 21)
            put(folder, "b", 3, 5)
            assert run(b, once=True).undelivered == 0
            assert in_table(journal) == whole(5)
            # The first region comes back: all that it has left is delivered.
            assert run(a, once=True).undelivered == 0
            assert in_table(journal) == whole(5)
            assert not list((folder / "checkpoint-a" / "waiting").glob("parcels/batch=*"))
            figures(f"the active run was killed {step}")
