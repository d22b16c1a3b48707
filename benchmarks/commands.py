"""A whole pipeline under an operator's hand: 100 commands in each batch, beside the same without them."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.measure import Claim, Timing, timed
from benchmarks.whole import BATCHES, GROUPS, LANES, declared, made_feed
from seriatim.kernel.groups.verbs import Action
from seriatim.runtime.pipelines.answers import keeping
from seriatim.runtime.pipelines.checkpoint import Checkpoint
from seriatim.spark.control.commands import Command
from seriatim.spark.control.log import ControlLog
from seriatim.spark.control.operator_log import OperatorLog
from seriatim.spark.deliver.stage import Folders, Sink, start
from seriatim.spark.query import decided
from seriatim.spark.state.state_layout import StateLayout

__all__ = ["commanding"]

COMMANDS = 100
_ROUNDS = 2


def _commands(batch: int) -> list[Command]:
    """Half of them suspend a group each, the others resume it."""
    found = []
    for number in range(COMMANDS // 2):
        customer = (batch * 997 + number * 61) % GROUPS
        for action in (Action.SUSPEND, Action.RESUME):
            queue, key = f"destination-{customer % LANES}", f"c{customer:06d}"
            found.append(Command(action, queue, key, "benchmark", "to measure"))
    return found


def _run(spark: SparkSession, root: Path, name: str, *, commanded: bool) -> Timing:
    inbox, work = made_feed(root), Path(tempfile.mkdtemp(dir=root))
    pipeline, checkpoint = declared(inbox, work), Checkpoint(work)
    folders = Folders(work / "set-aside", work / "unrouted", work / "waiting")
    sink = Sink(spark, pipeline, "benchmark", folders, keeping(checkpoint, lambda _: None))
    log = ControlLog(checkpoint.control)

    def before(batch: int) -> None:
        if commanded and batch < BATCHES - 1:  # a batch with commands alone is no part of the measurement
            log.append([one.entry() for one in _commands(batch)])

    frame = decided(spark, pipeline, layout=StateLayout(by_key=True, by_counts=True), control=checkpoint.control)
    query = start(frame, sink, name="pipelines", checkpoint=checkpoint.query, trigger_s=0.0, before=before)
    try:
        timing = timed(query, BATCHES, name)
        answers = list(OperatorLog(checkpoint.operator_log).answers())
        done = sum(answer.result == "done" for answer in answers)
        if commanded and done < COMMANDS * (BATCHES - 2):
            raise AssertionError(f"{done} of {len(answers)} commands were obeyed")
        return timing
    finally:
        query.stop()
        sink.close()
        shutil.rmtree(work, ignore_errors=True)


def commanding(spark: SparkSession, root: Path, peers: bool) -> Iterator[Claim]:
    """200,000 messages a batch, each to three destinations, with 100 commands a batch and without; the best of two runs each."""
    _run(spark, root, "warm-up", commanded=False)
    plain, commanded = [], []
    for number in range(_ROUNDS):
        plain.append(_run(spark, root, f"a whole pipeline, run {number + 1}", commanded=False))
        commanded.append(_run(spark, root, f"the same with {COMMANDS} commands a batch", commanded=True))
    ratio = min(one.median for one in commanded) / min(one.median for one in plain)
    yield Claim(f"time with {COMMANDS} commands a batch ÷ without", ratio, 1.1, False)
