"""What a run leaves of the control log, without Spark."""

from __future__ import annotations

import json

import pytest

from seriatim.runtime.pipelines.answers import keeping
from seriatim.runtime.pipelines.checkpoint import Checkpoint
from seriatim.spark.control.log import COMMAND, FINISH, ControlLog
from seriatim.spark.control.operator_log import OperatorLog
from seriatim.spark.control.source import FIRST_OFFSET
from seriatim.spark.deliver.stage import Delivered


class Runs:
    """Runs of a pipeline, with as many batches as they are told."""

    def __init__(self, root):
        self.checkpoint, self.batch = Checkpoint(root), 0
        self.control = ControlLog(self.checkpoint.control)
        for part in ("offsets", "commits"):
            (self.checkpoint.query / part).mkdir(parents=True)
        self.begin()

    def begin(self):
        self.take = keeping(self.checkpoint, "runs", lambda delivered: None)

    def obey(self, reports=()):
        """A batch takes in what is in the control log; the numbers of the files that are there before it is committed."""
        offset = json.dumps({**FIRST_OFFSET, "log": self.control.last()})
        (self.checkpoint.query / "offsets" / str(self.batch)).write_text(f"v1\n{{}}\n{offset}\n")
        self.take(Delivered(self.batch, {}, reports))
        (self.checkpoint.query / "commits" / str(self.batch)).write_text("v1\n{}")
        self.batch += 1
        return sorted(int(file.name) for file in self.checkpoint.control.glob("*"))


@pytest.fixture
def runs(tmp_path):
    return Runs(tmp_path)


@pytest.mark.parametrize("before", [0, 1], ids=["alone", "behind another batch"])
def test_runs_that_let_time_run_out_leave_no_more_than_two_files(runs, before):
    for number in range(1, 6):
        runs.begin()
        for _ in range(before):
            runs.obey()
        assert runs.control.append([{"kind": FINISH}]) == number
        assert runs.obey() == sorted({max(1, number - before), number})


def test_commands_are_deleted_by_the_next_batch_that_answers(runs):
    answers = (json.dumps({"answers": [{"written": 1, "id": "a"}]}),)
    for _ in range(2):
        runs.control.append([{"kind": COMMAND}])
    assert runs.obey(answers) == [1, 2]
    runs.control.append([{"kind": COMMAND}])
    assert runs.obey(answers) == [3]


def test_who_reads_an_answer_finds_its_batch_counted(tmp_path):
    checkpoint, kept = Checkpoint(tmp_path), []
    (checkpoint.query / "offsets").mkdir(parents=True)
    log = OperatorLog(checkpoint.operator_log, "runs")
    take = keeping(checkpoint, "runs", lambda delivered: kept.append(list(log.entries())))
    take(Delivered(0, {}, (json.dumps({"answers": [{"written": 1, "id": "a"}]}),)))
    assert (kept, len(list(log.entries()))) == ([[]], 1)
