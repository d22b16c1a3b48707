"""Run a pipeline: the one place that combines checkpoint, session, query and sink.

This module owns the life of a run: claim, start, watch, stop, account. It prints nothing; the caller gets a `Progress`
after each micro-batch and a `RunSummary` at the end.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any, TypeVar

from seriatim.errors import EnvironmentProblem, QueryFailed, SeriatimError
from seriatim.pipeline.declared.pipeline import Pipeline
from seriatim.pipeline.text.counted import counted
from seriatim.pipeline.text.event_log import LOG
from seriatim.runtime.pipelines.answers import keeping
from seriatim.runtime.pipelines.attempts import Attempts
from seriatim.runtime.pipelines.box_format import boxed
from seriatim.runtime.pipelines.checkpoint import Checkpoint, Identity
from seriatim.runtime.pipelines.failure_cause import cause_of
from seriatim.runtime.pipelines.lease import PipelineLease, leased
from seriatim.runtime.pipelines.progress import (
    Account,
    Ending,
    Ports,
    Progress,
    Report,
    Routing,
    Running,
    RunSummary,
    SkippedHoles,
    Spread,
    Tell,
    Waiting,
)
from seriatim.runtime.pipelines.progress_events import ProgressEvents, has_run
from seriatim.runtime.pipelines.state_files import state_failure
from seriatim.runtime.pipelines.tally import PUT_BACK, Standing, Tally
from seriatim.runtime.pipelines.unread_files import MOST_NAMED, InputFiles, UnreadFile, UnreadFiles
from seriatim.runtime.stop_signal import PATIENCE_S, Stop
from seriatim.spark.calls.register import Calling, calls_in, forget_calls, forget_fatal, left_calls
from seriatim.spark.control.pace import Pace
from seriatim.spark.deliver.abandoned import set_aside_waiting
from seriatim.spark.deliver.set_aside_reasons import SetAsideReason, by_frequency, merged
from seriatim.spark.deliver.stage import Folders, Sink, StreamingQuery, start
from seriatim.spark.deliver.targets import LastBatch
from seriatim.spark.front.positions import positions_in
from seriatim.spark.query import (
    arrived_in,
    behind_in,
    decided,
    is_idle,
    keep_first_numbers_of,
    let_time_run_out,
    received_in,
    rows_read,
    wake,
    was_commanded,
)
from seriatim.spark.receive.listed_files import check_files
from seriatim.spark.receive.row_sizes import check_row_sizes
from seriatim.spark.session.builder import SPLITTING, has_ended, is_running, open_session
from seriatim.spark.state.buckets import bucket_ids

T = TypeVar("T")

_LOOK_S = 0.1
# How often failing ports are retried, and a batch that takes long is reported.
_CARE_S = 0.5
_TELL_S = 1.0
# How often input files are checked that were read before; less often where a check takes long.
_FILES_S = 60.0
_FILES_SHARE = 0.01
# The longest time between a broken connection to Spark's process and its visible end.
_SEEN_S = 1.0


def run(
    pipeline: Pipeline,
    *,
    once: bool = False,
    finish: bool = False,
    drain: bool = False,
    abandon: Collection[str] = (),
    progress: Report | None = None,
    tell: Tell | None = None,
    looked: Callable[[], None] | None = None,
    conf: Mapping[str, str] | None = None,
    stop: Stop | None = None,
    verbose: bool = False,
    ended: Callable[[Any], None] | None = None,
) -> RunSummary:
    """Run a pipeline until it is stopped by SIGINT, SIGTERM or `stop`; it continues where its checkpoint is."""
    stop = stop or Stop()
    checkpoint = Checkpoint(pipeline.checkpoint.absolute())
    with stop.listening(), checkpoint.held() as lock:
        checkpoint.stop_request.unlink(missing_ok=True)  # it was meant for an earlier run
        given = {**pipeline.spark, **(conf or {})}
        identity = checkpoint.identify(
            pipeline, {name: given.get(name, value) for name, value in SPLITTING.items()}, abandon=abandon
        )
        checkpoint.check_logs(identity)
        fence = checkpoint.take_over()
        tally = Tally(checkpoint.tally)
        tally.begin(begun=checkpoint.last_begun(), committed=checkpoint.last_committed())
        if identity.moved is not None and not identity.is_woken:
            tally.gather(bucket_ids(identity.buckets)[0])
        watch = _Watch(pipeline, checkpoint, tally, stop=stop, report=progress, tell=tell, looked=looked)
        # The checkpoint's first settings win: otherwise rows would get other names in the middle of a batch.
        settings = {"spark.app.name": pipeline.name, **given, **identity.splitting}
        # Spark takes SIGINT when it starts, so it is taken back afterwards.
        with (
            pipeline_session(settings, checkpoint, lock, verbose=verbose) as session,
            boxed(pipeline, session) as last_batch,
            leased(pipeline, checkpoint.root) as lease,
            stop.listening(),
        ):
            watch.lease = lease
            query_of = partial(_query, session, checkpoint, identity, fence=fence, tally=tally, lease=lease)
            attempts = partial(Attempts, stop=stop, tell=tell, lives=lambda: not has_ended(session, _SEEN_S))
            former = checkpoint.former(pipeline)
            if former is not None:
                # Its box may be needed by destinations that are no longer in the file.
                own: AbstractContextManager[LastBatch] = (
                    nullcontext(last_batch) if pipeline.needs_box else boxed(former, session)
                )
                with own as last_of_former, watch.under(former):
                    query = query_of(former, attempts(), last_batch=last_of_former, trigger_s=None)
                    if not _finish_batch(query, watch, stop) or checkpoint.in_flight():
                        # Nothing else may deliver the batch that a hanging port has, or redo the one that a stop has cancelled.
                        return watch.summary("stopped", query.waiting())
            had = checkpoint.declared(pipeline) if abandon else None
            folders = _folders(pipeline, checkpoint)
            identity = checkpoint.remember(
                pipeline,
                abandon=abandon,
                begin=partial(keep_first_numbers_of, session, identity.layout),
                positions=partial(_positions, session, checkpoint),
                leave=partial(set_aside_waiting, session, identity.id, folders, fence, had or pipeline, abandon),
            )
            # Dead messages have to be set aside now, also in a bucket for which nothing arrives; and a bucket reports what it holds.
            abandoned = watch.abandoned(identity.history.gone)
            if abandoned or identity.moved is not None or tally.is_lost:
                checkpoint.note_wake(wake(checkpoint.control, identity.former_buckets))
            query_of = partial(_query, session, checkpoint, identity, fence=fence, tally=tally, lease=lease)
            trigger_s = 0.0 if once or finish else pipeline.trigger_s
            query = query_of(pipeline, attempts(), last_batch=last_batch, trigger_s=trigger_s, available_now=drain)
            try:
                ending: Ending = "once" if watch.follow(query, ends=once or finish) else "stopped"
                if drain and ending == "once":
                    ending = "drained"
                if finish and ending == "once":
                    command = let_time_run_out(checkpoint.control)
                    ending = "finished" if watch.follow(query, ends=True, command=command) else "stopped"
                query.stop()
                if ending != "stopped":
                    watch.settle(query.sink)
            finally:
                query.close(stop)
            if ended is not None:
                ended(session)
        return watch.summary(ending, query.waiting())


@contextmanager
def pipeline_session(settings: Mapping[str, str], checkpoint: Checkpoint, lock: int, *, verbose: bool) -> Iterator[Any]:
    """A Spark session, which ends with the block unless Spark ran before."""
    shared = is_running()
    session = open_session(settings, log=None if verbose else checkpoint.log, inherit=(lock,))
    try:
        yield session
    except Exception as error:
        if has_ended(session, _SEEN_S):
            raise EnvironmentProblem(
                "Spark's process has ended",
                where=str(checkpoint.log),
                remedy="the next run goes on where this one stopped",
            ) from error
        if isinstance(error, QueryFailed):
            damage = state_failure(checkpoint.query, f"{error.what} {error.__cause__}")
            if damage is not None:
                raise damage from error.__cause__
        raise
    finally:
        if not shared and not has_ended(session):
            session.stop()


def _query(
    session: Any,
    checkpoint: Checkpoint,
    identity: Identity,
    pipeline: Pipeline,
    attempts: Attempts,
    *,
    fence: int,
    tally: Tally,
    lease: PipelineLease | None,
    last_batch: LastBatch,
    trigger_s: float | None,
    available_now: bool = False,
) -> _Query:
    incarnations = {name: number - 1 for name, number in identity.history.incarnations.items()}
    deliver = partial(
        Sink, session, pipeline, identity.id, _folders(pipeline, checkpoint), keeping(checkpoint, identity.id, tally.add), fence=fence,
        incarnations=incarnations, departed=identity.departed, lease=lease, last_batch=last_batch,
    )  # fmt: skip
    begin = partial(_start, session, checkpoint, identity, pipeline, trigger_s=trigger_s, available_now=available_now)
    return _Query(deliver, begin, attempts)


def _start(
    session: Any,
    checkpoint: Checkpoint,
    identity: Identity,
    pipeline: Pipeline,
    sink: Sink,
    *,
    trigger_s: float | None,
    available_now: bool = False,
) -> StreamingQuery:
    # A call that never returned has ended its worker, or was cancelled: either way its batch runs again.
    calling = Calling(str(checkpoint.calls.absolute()), doubted=left_calls(checkpoint.calls))
    forget_calls(checkpoint.calls)

    def before(batch: int) -> None:
        check_files(session, checkpoint.query, batch)
        check_row_sizes(session, checkpoint.query, batch)
        forget_fatal(checkpoint.calls, batch)

    try:
        # One batch ahead is right: the entry in Spark's log that begins it may be lost in a power failure.
        sink.check_age(checkpoint.last_begun() + 1)
        frame = decided(
            session,
            pipeline,
            layout=identity.layout,
            control=checkpoint.control,
            calling=calling,
            stamp_buckets=identity.stamp_buckets,
        )
        return start(
            frame, sink, name=pipeline.name, checkpoint=checkpoint.query, trigger_s=trigger_s,
            available_now=available_now, before=before,
        )  # fmt: skip
    except SeriatimError:
        raise
    except Exception as error:
        raise cause_of(error) from error  # py4j raises whatever the JVM raised


def _folders(pipeline: Pipeline, checkpoint: Checkpoint) -> Folders:
    aside, unrouted = pipeline.set_aside or checkpoint.set_aside, pipeline.unrouted or checkpoint.unrouted
    return Folders(aside, unrouted, checkpoint.waiting)


def _positions(session: Any, checkpoint: Checkpoint) -> Mapping[str, int]:
    """Where tickets stand in the state; raises as a query does that can't load it."""
    try:
        return positions_in(session, str(checkpoint.query.absolute()))
    except Exception as error:  # py4j raises whatever the JVM raised
        raise cause_of(error) from error


class _Query:
    """A query and its sink. The query is restarted after a transient failure; the sink goes on. So a port that hangs holds up its own
    destination only: it needn't be waited for, and its thread stays the only one that delivers what it has in hand.
    """

    def __init__(
        self, deliver: Callable[[], Sink], begin: Callable[[Sink], StreamingQuery], attempts: Attempts
    ) -> None:
        self._begin = begin
        self.attempts = attempts
        self.sink = self._tried(deliver)
        self._start()

    def again(self, failure: BaseException) -> bool:
        """Restart the query after a failure: True; or False if the run has to end, and then none runs."""
        self.events.stop()
        if not self.attempts.after(failure):
            return False
        self.sink.begin_again()
        self._start()
        return True

    def stop(self) -> None:
        self.query.stop()

    def close(self, stop: Stop, patience_s: float = PATIENCE_S) -> bool:
        self.events.stop()
        self.query.stop()
        until = time.monotonic() + patience_s
        return self.sink.close(lambda: stop.at_once or time.monotonic() > until)

    def waiting(self) -> tuple[Waiting, ...]:
        return self.sink.waiting()

    def _start(self) -> None:
        self.query = self._tried(partial(self._begin, self.sink))
        self.events = ProgressEvents(self.query)
        self.events.start()

    def _tried(self, make: Callable[[], T]) -> T:
        while True:
            try:
                return make()
            except SeriatimError as failure:
                if not self.attempts.after(failure):
                    raise


def _finish_batch(query: _Query, watch: _Watch, stop: Stop) -> bool:
    """Finish the one batch of a query that was begun under a former declaration; return whether the query and its ports have ended."""
    try:
        watch.follow(query, ends=True)
    except BaseException:
        query.close(stop)
        raise
    # The next query delivers to the same ports, so these are waited for.
    return query.close(stop, math.inf)


class _Watch:
    """Follows the queries of a run and keeps its accounts. The sink may be a batch ahead of the events that Spark reports, so every event
    is matched with the counts after its own batch. A batch that was cancelled has no event: the next run does it again.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        checkpoint: Checkpoint,
        tally: Tally,
        *,
        stop: Stop,
        report: Report | None,
        tell: Tell | None,
        looked: Callable[[], None] | None = None,
    ) -> None:
        self._pipeline = pipeline
        self._checkpoint = checkpoint
        self._tally = tally
        self._stop = stop
        self._report = report
        self._tell = tell
        self._looked = looked
        # A batch that was begun before and runs again doesn't look for new messages.
        self._last_begun = checkpoint.last_begun()
        self._began = time.monotonic()
        self._batches = 0
        self._arrived = {destination.queue.name: 0 for destination in pipeline.route}
        self._standing: Standing | None = None
        self._received = self._routed = 0
        self._reasons: dict[tuple[str, str, str], SetAsideReason] = {}
        self._skipped = SkippedHoles()
        self._cared = self._timed = 0.0
        self._failing: tuple[tuple[str, str], ...] = ()
        #: The lease of the pipeline, where two runs share it.
        self.lease: PipelineLease | None = None
        self._lease_told: tuple[str, str | None, str | None] | None = None
        self._files = InputFiles(pipeline, checkpoint.query)
        self._files_told: set[UnreadFile] = set()
        self._files_next = self._began + _FILES_S
        self._pace = Pace(since=time.time())
        self._pace.keep(checkpoint.root)

    @contextmanager
    def under(self, pipeline: Pipeline) -> Iterator[None]:
        """Count the batches that end in the block under another declaration."""
        present, self._pipeline = self._pipeline, pipeline
        self._arrived = {**{route.queue.name: 0 for route in pipeline.route}, **self._arrived}
        yield
        self._pipeline = present

    def abandoned(self, names: Iterable[str]) -> bool:
        """Return whether messages are still held for removed destinations; they belong to this run's account then."""
        held = {name: 0 for name in names if self._tally.standing.held(name)}
        self._arrived = {**held, **self._arrived}
        return bool(held)

    def follow(self, running: _Query, *, ends: bool, command: int = 0) -> bool:
        """Wait until the query has nothing more to do (True), or until its end is requested (False)."""
        while True:
            query = running.query
            ended = not query.isActive  # before the check for a failure: a query may fail at any moment
            failure = query.exception()
            events = running.events.take()
            idle = self._take_in(events, running, command)
            if failure is not None:
                if not running.again(failure):
                    return False
                self._last_begun = self._checkpoint.last_begun()
                continue
            if self._looked is not None:
                self._looked()
            if ends and idle:
                return True
            # No batch runs, or it is cancelled: the query may be ended even if none of its batches has just ended.
            if self._stop.requested and (events or self._stop.at_once or not query.status["isTriggerActive"]):
                return False
            if ended and not events:
                return True
            self._care(running.sink)
            self._stop.wait(_LOOK_S)

    def _take_in(self, events: Iterable[Mapping[str, Any]], running: _Query, command: int) -> bool:
        """Account for new events; return whether there was no new data after a command was read."""
        idle = False
        for event in events:
            if self._note(event, running.sink):
                running.attempts.got_on()
            obeyed = not command or was_commanded(event, command)
            idle = idle or (obeyed and event["batchId"] > self._last_begun and is_idle(event))
        return idle

    def settle(self, sink: Sink) -> None:
        """Deliver waiting batches once more, and wait for the end of that, unless a stop is requested."""
        sink.carry(now=True)
        while not sink.settled() and not self._stop.requested:
            self._stop.wait(_LOOK_S)
        self._tell_ports(sink)

    def _care(self, sink: Sink) -> None:
        now = time.monotonic()
        if now - self._cared >= _CARE_S:
            self._cared = now
            if self._checkpoint.stop_request.exists():
                self._stop.request()
            sink.carry()
            self._tell_ports(sink)
        if now >= self._files_next:
            self._look_at_files()
            self._files_next = time.monotonic() + max(_FILES_S, (time.monotonic() - now) / _FILES_SHARE)
        hand = sink.in_hand()
        if hand is not None and hand.seconds >= _TELL_S and now - self._timed >= _TELL_S and self._tell is not None:
            self._timed = now
            self._tell(Running(hand.batch, round(hand.seconds, 1), next(iter(calls_in(self._checkpoint.calls)), None)))

    def _look_at_files(self) -> None:
        """Log input files that aren't read, each once, and not many at once."""
        for file in [file for file in self._files.unread() if file not in self._files_told][:MOST_NAMED]:
            self._files_told.add(file)
            LOG.warning("input_file_not_read", pipeline=self._pipeline.name, file=file.path, why=file.why, _file=file)

    def _tell_lease(self) -> None:
        if self.lease is None:
            return
        state = self.lease.state
        if state.key != self._lease_told:
            self._lease_told = state.key
            if self._tell is not None:
                self._tell(state)

    def _tell_ports(self, sink: Sink) -> None:
        self._tell_lease()
        waiting = tuple(batch for batch in sink.waiting() if batch.reason and not batch.stands_by)
        failing = tuple((batch.destination, batch.reason) for batch in waiting)
        if failing != self._failing:
            self._failing = failing
            if self._tell is not None:
                self._tell(Ports(waiting))

    def _note(self, event: Mapping[str, Any], sink: Sink) -> bool:
        """Account for a trigger; return whether it ran a micro-batch."""
        batch, behind = event["batchId"], behind_in(event)
        self._make_up(batch)
        if not has_run(event):
            return False
        standing = self._tally.after(batch)
        if standing is None or standing is self._standing:
            return False
        before, self._standing = self._standing or self._tally.opening, standing
        self._reasons = merged([*self._reasons.values(), *self._tally.reasons_through(batch)])
        self._skipped += self._tally.skipped_through(batch)
        arrived = {**dict.fromkeys(self._arrived, 0), **arrived_in(event, self._pipeline)}
        self._arrived = {name: rows + arrived[name] for name, rows in self._arrived.items()}
        received, routed = received_in(event)
        self._received, self._routed = self._received + received, self._routed + routed
        accounts, routing = _accounts(arrived, before, standing), _routing(received, routed, before, standing)
        released = sum(account.released for account in accounts)
        self._pace = self._pace.after(time.time(), received, released, behind)
        self._pace.keep(self._checkpoint.root)
        if routing == Routing() and not any(
            account.arrived or account.released or account.set_aside for account in accounts
        ):
            return True
        self._batches += 1
        if self._report is not None:
            seconds = event["durationMs"].get("triggerExecution", 0) / 1000
            rows = rows_read(event)
            rate = rows / seconds if seconds else 0.0
            tasks = [task for task in self._tally.tasks(batch) if task]
            spread = Spread(len(tasks), min(tasks), max(tasks)) if tasks else Spread()
            holes, waiting = standing.holes(), sink.waiting()
            self._report(Progress(batch, seconds, rows, rate, accounts, holes, routing, waiting, spread, behind))
        return True

    def _make_up(self, batch: int) -> None:
        """Account for earlier batches whose events were missed, as after a process that stood still. As many messages arrived in them as
        the law of conservation says, so it is checked for all batches but these. How many of them the router got isn't known.
        """
        before = self._standing or self._tally.opening
        missed = [standing for standing in self._tally.through(batch - 1) if standing.batch > before.batch]
        if not missed:
            return
        self._standing = now = missed[-1]
        for account in _accounts(dict.fromkeys(self._arrived, 0), before, now):
            self._arrived[account.destination] -= account.missing
        self._received -= _routing(0, 0, before, now).missing
        of = counted(len(missed), "batch", "batches")
        LOG.warning("batches_not_seen", pipeline=self._pipeline.name, batches=len(missed), _of=of)

    def summary(self, ending: Ending, waiting: tuple[Waiting, ...]) -> RunSummary:
        seconds = time.monotonic() - self._began
        before = self._tally.opening
        now = self._standing or before
        summary = RunSummary(
            self._pipeline.name,
            ending,
            seconds,
            self._batches,
            _accounts(self._arrived, before, now),
            now.holes(),
            _routing(self._received, self._routed, before, now),
            waiting,
            now.held_groups(),
            now.longest(),
            by_frequency(self._reasons.values()),
            self._skipped,
            now.suspected(),
            UnreadFiles() if self._stop.at_once else self._files.look(),
        )
        if not self._tally.is_lost:
            summary.check()
        return summary


def _accounts(arrived: Mapping[str, int], before: Standing, now: Standing) -> tuple[Account, ...]:
    """Return the account of each destination between two standings, with the messages that arrived in between."""
    return tuple(_account(name, rows, before, now) for name, rows in arrived.items())


def _routing(received: int, routed: int, before: Standing, now: Standing) -> Routing:
    unrouted, invalid = (now.count("", kind) - before.count("", kind) for kind in ("unrouted", "invalid"))
    return Routing(received, routed, unrouted, invalid)


def _account(name: str, arrived: int, before: Standing, now: Standing) -> Account:
    def made(disposition: str) -> int:
        return now.count(name, disposition) - before.count(name, disposition)

    decided = ("released", "late", "duplicate", "invalid", "rejected", "dead", "void", "copy")
    return Account(
        name,
        held_before=before.held(name),
        arrived=arrived + made(PUT_BACK),
        held=now.held(name),
        **{disposition: made(disposition) for disposition in decided},
    )
