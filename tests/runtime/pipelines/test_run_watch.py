"""The accounts of a run are right whatever becomes of the events by which Spark tells of its batches."""

from __future__ import annotations

import threading
from collections import deque
from types import SimpleNamespace

import pytest

from seriatim.errors import InvariantBroken
from seriatim.runtime.pipelines.checkpoint import Checkpoint
from seriatim.runtime.pipelines.progress_events import ProgressEvents
from seriatim.runtime.pipelines.run import _Watch
from seriatim.runtime.pipelines.tally import Tally
from seriatim.runtime.stop_signal import Stop
from seriatim.spark.deliver.stage import Delivered

#: So many events Spark keeps.
KEPT = 20
DEADLINE_S = 180.0
PIPELINE = SimpleNamespace(name="p", receive=[], route=[SimpleNamespace(queue=SimpleNamespace(name="a"))])


class Query:
    """What a query of Spark's tells of itself: its last events."""

    def __init__(self, run_id="r"):
        self.run_id = run_id
        self.kept = deque(maxlen=KEPT)

    @property
    def recentProgress(self):  # noqa: N802 -- the name is Spark's
        return [dict(event) for event in self.kept]

    @property
    def lastProgress(self):  # noqa: N802
        return dict(self.kept[-1]) if self.kept else None

    def tell(self, batch, second, rows=None):
        """Of a batch with so many rows; None: of a look for new messages that found none."""
        ran = rows is not None
        observed = {"seriatim": {"to_0": rows, "nowhere": 0}, "seriatim-router": {"received": rows}} if ran else {}
        event = {
            "runId": self.run_id,
            "batchId": batch,
            "timestamp": f"2026-01-01T00:{second // 60:02d}:{second % 60:02d}.000Z",
        }
        durations = {"triggerExecution": 1, **({"addBatch": 1} if ran else {})}
        self.kept.append(
            event | {"numInputRows": rows or 0, "sources": [], "durationMs": durations, "observedMetrics": observed}
        )


class Run:
    """A run whose query does and tells what a test says."""

    def __init__(self, folder):
        self.tally = Tally(folder / "tally.json")
        self.tally.begin(begun=-1, committed=-1)
        self.reported = []
        self.watch = _Watch(
            PIPELINE, Checkpoint(folder), self.tally, stop=Stop(), report=self.reported.append, tell=None
        )
        self.begin("r1")

    def begin(self, run_id):
        """A query; another one was there before."""
        self.query = Query(run_id)
        self.events = ProgressEvents(self.query)

    def batch(self, number, second=0, *, arrived=1, released=1):
        self.deliver(number, released)
        self.query.tell(number, second, arrived)

    def deliver(self, number, released=1):
        self.tally.add(Delivered(number, {("a", "released"): released}))

    def look(self):
        """As the run does; returns whether the query was idle."""
        sink = SimpleNamespace(waiting=tuple)
        running = SimpleNamespace(sink=sink, attempts=SimpleNamespace(got_on=lambda: None))
        return self.watch._take_in(self.events.take(), running, 0)

    def account(self):
        """What arrived and was released, received and routed."""
        summary = self.watch.summary("stopped", ())
        (one,) = summary.accounts
        return one.arrived, one.released, summary.routing.received, summary.routing.routed


@pytest.fixture
def run(tmp_path):
    return Run(tmp_path)


def test_a_clock_that_is_put_back_hides_nothing(run):
    for number in range(5):
        run.batch(number, 100 + number)
        run.look()
    for number in range(5, 30):
        run.batch(number, number)
        run.look()
    run.query.tell(30, 50)
    assert run.look()
    assert run.account() == (30, 30, 30, 30)
    assert [one.batch for one in run.reported] == list(range(30))


def test_a_look_for_messages_counts_nothing_of_the_batch_that_follows(run):
    run.batch(0)
    run.query.tell(1, 1)
    run.batch(1, 2)  # before anybody has read that nothing was there
    assert run.look()
    assert run.account() == (2, 2, 2, 2)
    assert [(one.batch, one.accounts[0].arrived) for one in run.reported] == [(0, 1), (1, 1)]


def test_events_are_read_while_the_run_is_held_up_where_it_reports(run):
    run.batch(0)
    run.look()
    done = threading.Event()

    class Busy(Query):
        """Does a batch and looks for messages eight times whenever somebody looks at it."""

        @property
        def lastProgress(self):  # noqa: N802
            last = super().lastProgress
            number = last["batchId"] if last else 1
            if number == 10:
                done.set()
                return last
            run.batch(number)
            for second in range(8):
                self.tell(number + 1, second)
            return super().lastProgress

    run.query = Busy("r2")
    run.events = ProgressEvents(run.query)
    run.events.start()
    assert done.wait(DEADLINE_S)  # this thread reads nothing meanwhile
    run.events.stop()
    assert run.look()
    assert run.account() == (10, 10, 10, 10)


def test_looks_for_messages_that_nobody_reads_take_no_memory(run):
    for second in range(50):
        run.query.tell(0, second)
        run.events.look()
    assert len(run.events.take()) == 1


def test_a_query_that_is_begun_again_is_followed_from_its_first_event(run):
    run.batch(0, 30)
    run.look()
    run.deliver(1)  # and it fails before it says so
    run.begin("r2")
    run.batch(1, 10)
    run.batch(2, 11)
    run.look()
    assert run.account() == (3, 3, 3, 3)


def test_batches_whose_events_nobody_saw_are_taken_as_the_law_says_and_the_others_are_checked(run, caplog):
    run.batch(0)
    run.look()
    for number in range(1, 31):  # the machine stood still meanwhile, but for Spark
        run.batch(number, number)
    run.look()
    assert run.account() == (31, 31, 21, 21)
    assert [(record.event, record.batches) for record in caplog.records] == [("batches_not_seen", 10)]
    assert [one.batch for one in run.reported] == [0, *range(11, 31)]
    assert all(one.accounts[0].missing == 0 for one in run.reported)
    run.batch(31, 31, arrived=3, released=1)
    run.look()
    with pytest.raises(InvariantBroken, match="the law of conservation is broken by 2"):
        run.account()


def test_a_batch_is_missed_where_only_a_look_for_messages_came_after_it(run, caplog):
    run.batch(0)
    for second in range(KEPT):
        run.query.tell(1, second)
    run.look()
    assert run.account() == (1, 1, 0, 0)
    assert [(record.event, record.batches) for record in caplog.records] == [("batches_not_seen", 1)]
