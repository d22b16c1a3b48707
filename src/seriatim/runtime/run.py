"""Running a pipeline: the one place that puts checkpoint, session, query and sink together.

Owns the life of a run: claim, start, watch, stop, account. Shows nothing; whoever calls gets a `Progress`
after each micro-batch and a `RunSummary` at the end.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from seriatim.errors import SeriatimError
from seriatim.pipeline.declaration import Pipeline
from seriatim.runtime.checkpoint import Checkpoint, Identity
from seriatim.runtime.failure import cause_of
from seriatim.runtime.progress import Account, Ending, Progress, Report, RunSummary
from seriatim.runtime.stop import Stop
from seriatim.runtime.tally import Standing, Tally
from seriatim.spark.deliver import Sink, StreamingQuery, start
from seriatim.spark.query import arrived_in, decided, is_idle, let_time_run_out, was_commanded
from seriatim.spark.session import SPLITTING, is_running, open_session

__all__ = ["run"]

_LOOK_S = 0.1


def run(
    pipeline: Pipeline,
    *,
    once: bool = False,
    finish: bool = False,
    progress: Report | None = None,
    conf: Mapping[str, str] | None = None,
    stop: Stop | None = None,
    verbose: bool = False,
) -> RunSummary:
    """Run a pipeline until it is stopped by SIGINT, SIGTERM or `stop`, going on where its checkpoint is.

    Args:
        pipeline: what to run.
        once: end when all that is there has been taken in.
        finish: after that let time run out, so that nothing waits any more that has a time-out; implies `once`.
        progress: called after each micro-batch that read or decided something, and when what is held changed.
        conf: Spark settings; they win over the pipeline's own.
        stop: another way to ask for the end.
        verbose: leave Spark's own messages on standard error instead of in the checkpoint.

    Raises:
        UsageError: the pipeline can't be run as it is written.
        CheckpointMismatch: the checkpoint or a port belongs to another pipeline.
        EnvironmentProblem: Java, Spark, a folder, or another run that is at work.
        SeriatimError: the query failed; says why.
        InvariantBroken: the law of conservation doesn't hold.
    """
    stop = stop or Stop()
    checkpoint = Checkpoint(pipeline.checkpoint.absolute())
    with stop.listening(), checkpoint.held() as lock:
        identity = checkpoint.identify(pipeline, _chosen(SPLITTING, pipeline.spark, conf or {}))
        tally = Tally(checkpoint.tally)
        watch = _Watch(pipeline, tally, stop, progress, checkpoint.last_begun())
        settings = _settings(pipeline, identity, conf or {})
        # Spark takes SIGINT for itself when it starts, so it is taken back once more.
        with _session(settings, checkpoint, lock, verbose=verbose) as session, stop.listening():
            start_query = partial(_start, session, checkpoint, identity, tally)
            former = checkpoint.former(pipeline)
            if former is not None:
                _finish_batch(start_query(former, trigger_s=None), watch)
            checkpoint.remember(pipeline)
            query = start_query(pipeline, trigger_s=0.0 if once or finish else pipeline.trigger_s)
            try:
                ending: Ending = "once" if watch.follow(query, ends=once or finish) else "stopped"
                if finish and ending == "once":
                    let_time_run_out(checkpoint.control, identity.buckets)
                    ending = "finished" if watch.follow(query, ends=True, commanded=True) else "stopped"
            finally:
                query.stop()
        return watch.summary(ending)


def _chosen(defaults: Mapping[str, str], *given: Mapping[str, str]) -> dict[str, str]:
    chosen = dict(defaults)
    for settings in given:
        chosen |= {name: value for name, value in settings.items() if name in defaults}
    return chosen


def _settings(pipeline: Pipeline, identity: Identity, conf: Mapping[str, str]) -> dict[str, str]:
    settings = {"spark.app.name": pipeline.name}
    # What the checkpoint began with wins: rows would be named otherwise in the middle of a batch.
    return {**settings, **pipeline.spark, **conf, **identity.splitting}


@contextmanager
def _session(settings: Mapping[str, str], checkpoint: Checkpoint, lock: int, *, verbose: bool) -> Iterator[Any]:
    shared = is_running()
    session = open_session(settings, log=None if verbose else checkpoint.log, inherit=(lock,))
    try:
        yield session
    finally:
        if not shared:
            session.stop()


def _start(
    session: Any,
    checkpoint: Checkpoint,
    identity: Identity,
    tally: Tally,
    pipeline: Pipeline,
    *,
    trigger_s: float | None,
) -> StreamingQuery:
    sink = Sink(pipeline, identity.id, pipeline.set_aside or checkpoint.set_aside, tally.add)
    try:
        frame = decided(session, pipeline, buckets=identity.buckets, control=checkpoint.control)
        return start(frame, sink, name=pipeline.name, checkpoint=checkpoint.query, trigger_s=trigger_s)
    except SeriatimError:
        raise
    except Exception as error:  # py4j raises whatever the JVM did
        raise cause_of(error) from error


def _finish_batch(query: StreamingQuery, watch: _Watch) -> None:
    """Finishes the one batch of a query that was begun under a former declaration."""
    try:
        watch.follow(query, ends=True)
    finally:
        query.stop()


class _Watch:
    """Follows the queries of a run and keeps its accounts.

    The sink may be a batch ahead of the events that Spark reports, so every event is matched with what
    stood after just its batch. A batch that was cancelled has no event: the next run does it again.
    """

    def __init__(self, pipeline: Pipeline, tally: Tally, stop: Stop, report: Report | None, last_begun: int) -> None:
        self._pipeline = pipeline
        self._tally = tally
        self._stop = stop
        self._report = report
        # A batch that was begun before and runs again doesn't look for new messages.
        self._last_begun = last_begun
        self._began = time.monotonic()
        self._batches = 0
        self._seen = ""
        self._arrived = {destination.queue.name: 0 for destination in pipeline.route}
        self._standing: Standing | None = None
        self._told: tuple[Account, ...] = ()

    def follow(self, query: StreamingQuery, *, ends: bool, commanded: bool = False) -> bool:
        """Until the query has nothing more to do: True; or until someone asked for its end: False.

        Args:
            query: the running query.
            ends: whether it ends when there is nothing more to do; else it goes on and waits.
            commanded: there is a command on its way; before it was taken in there is more to do.

        Raises:
            SeriatimError: it failed.
        """
        while True:
            failure = query.exception()
            if failure is not None:
                raise cause_of(failure) from failure
            for event in _events_after(query, self._seen):
                self._seen = event["timestamp"]
                self._note(event)
                commanded = commanded and not was_commanded(event)
                if ends and not commanded and event["batchId"] > self._last_begun and is_idle(event):
                    return True
                if self._stop.requested:
                    return False
            if not query.isActive and not _events_after(query, self._seen):
                return True
            if self._stop.at_once or (self._stop.requested and not query.status["isTriggerActive"]):
                return False
            self._stop.wait(_LOOK_S)

    def _note(self, event: Mapping[str, Any]) -> None:
        standing = self._tally.after(event["batchId"])
        if standing is None or standing is self._standing:
            return  # Spark looked for new messages and ran nothing
        self._standing = standing
        for name, rows in arrived_in(event, self._pipeline).items():
            self._arrived[name] += rows
        accounts = self.accounts()
        if accounts == self._told:
            return
        self._told = accounts
        self._batches += 1
        if self._report is not None:
            seconds = event["durationMs"].get("triggerExecution", 0) / 1000
            rows = event["numInputRows"]
            rate = rows / seconds if seconds else 0.0
            self._report(Progress(event["batchId"], seconds, rows, rate, accounts, standing.holes()))

    def accounts(self) -> tuple[Account, ...]:
        """Each destination since the run began."""
        before = self._tally.opening
        now = self._standing or before
        return tuple(_account(name, arrived, before, now) for name, arrived in self._arrived.items())

    def summary(self, ending: Ending) -> RunSummary:
        """The run as it ended.

        Raises:
            InvariantBroken: the law of conservation doesn't hold.
        """
        seconds = time.monotonic() - self._began
        holes = (self._standing or self._tally.opening).holes()
        summary = RunSummary(self._pipeline.name, ending, seconds, self._batches, self.accounts(), holes)
        summary.check()
        return summary


def _account(name: str, arrived: int, before: Standing, now: Standing) -> Account:
    def made(disposition: str) -> int:
        return now.count(name, disposition) - before.count(name, disposition)

    return Account(
        name,
        held_before=before.held(name),
        arrived=arrived,
        released=made("released"),
        held=now.held(name),
        late=made("late"),
        duplicate=made("duplicate"),
        invalid=made("invalid"),
        rejected=made("rejected"),
        dead=made("dead"),
    )


def _events_after(query: StreamingQuery, seen: str) -> list[Mapping[str, Any]]:
    """Progress events that are newer; the times at which their triggers began tell them apart."""
    last = query.lastProgress
    if last is None or last["timestamp"] <= seen:
        return []
    return [event for event in query.recentProgress if event["timestamp"] > seen]
