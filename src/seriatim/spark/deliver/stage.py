"""Deliver: one sink for all ports, one Spark job for each micro-batch.

The job that runs the frame also writes the files, so the frame is run once and isn't cached in memory; `port.py`
puts the files in place. The workers that open the operator's packets write files of columns; only text files, and
the results of the user's code, pass through Spark once more. Rows that were not released go to
the set-aside port with disposition and reason, rows without a destination to the unrouted port.

A destination that drops (`DROP`) has no port: its messages are decided and counted like all messages, and messages
that were not released are set aside.

*Ports are independent.* If a port fails, in a task or when its files are put in place, the job runs once more for that
destination alone and writes into its outbox (`outgoing.py`); other destinations aren't affected.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructField, StructType

from seriatim.errors import CheckpointMismatch, UsageError
from seriatim.pipeline.declared.pipeline import BOX, DROP, TABLE, Deliver, Pipeline
from seriatim.pipeline.text.counted import counted
from seriatim.spark.deliver.carriers import Carriers
from seriatim.spark.deliver.claimed import Claimed, DeliveryLease
from seriatim.spark.deliver.file_formats import FORMATS, check_options
from seriatim.spark.deliver.file_parts import ANSWER, Outlet, Parts
from seriatim.spark.deliver.layout import DepartedQueue, Layout
from seriatim.spark.deliver.outbox import Outbox, folder_name
from seriatim.spark.deliver.outgoing import Outgoing, Waiting
from seriatim.spark.deliver.port import Port
from seriatim.spark.deliver.set_aside_reasons import SetAsideReason
from seriatim.spark.deliver.targets import BoxSink, Folder, LastBatch, SparkSink, Target
from seriatim.spark.process.stage import properties
from seriatim.spark.resequence.decided_packets import opened, rows_of
from seriatim.spark.session.requirements import arrow_schema

__all__ = ["SET_ASIDE", "UNROUTED", "Delivered", "Folders", "InHand", "Sink", "StreamingQuery", "Waiting", "start"]

#: The name of the port for messages that were not released.
SET_ASIDE = "set-aside"
#: The name of the port for messages without a destination.
UNROUTED = "unrouted"

_THREADS = 16


@dataclass(frozen=True, slots=True)
class Delivered:
    batch: int
    #: How many messages by (destination, disposition); the destination of a message that has none is "".
    counts: Mapping[tuple[str, str], int]
    #: The operator's reports of its state, a JSON text a bucket.
    reports: tuple[str, ...] = ()
    tasks: tuple[int, ...] = ()
    #: Why messages were set aside, as each writing task has counted.
    reasons: tuple[SetAsideReason, ...] = ()


@dataclass(frozen=True, slots=True)
class InHand:
    """The micro-batch that is being delivered, and the seconds since its begin."""

    batch: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Folders:
    """The folders of a sink for messages that reach no destination's port: not released, unrouted, and waiting for a port."""

    set_aside: Path
    unrouted: Path
    waiting: Path

    def waiting_for(self, destination: str) -> Path:
        """The folder of the batches that wait for the port of a destination."""
        return self.waiting.absolute() / folder_name(destination)

    def waiting_own(self, name: str) -> Path:
        """The same for the ports of `SET_ASIDE` and `UNROUTED`; no destination's folder begins like that."""
        return self.waiting.absolute() / f"+{name}"


class Sink:
    """The sink of a pipeline's query; called with each micro-batch, in a thread of Spark. A query that is begun again has the same sink:
    the rows that wait for a hanging port belong to a thread, and no other may deliver them meanwhile.
    """

    def __init__(
        self,
        session: SparkSession,
        pipeline: Pipeline,
        identity: str,
        folders: Folders,
        delivered: Callable[[Delivered], None],
        *,
        fence: int = 0,
        incarnations: Mapping[str, int] | None = None,
        departed: Sequence[DepartedQueue] = (),
        lease: DeliveryLease | None = None,
        clock: Callable[[], float] = time.monotonic,
        last_batch: LastBatch = lambda _: None,
    ) -> None:
        delivering = [destination for destination in pipeline.route if destination.deliver.format != DROP]
        self._queues = [destination.queue for destination in delivering]
        self._names = tuple(queue.name for queue in self._queues)
        self._outgoing = _outgoing(
            session, pipeline, identity, folders=folders, fence=fence, clock=clock, lease=lease, last_batch=last_batch
        )
        self._formats = [destination.deliver.format for destination in delivering]
        # Whether any port takes columns, and not lines of text.
        self._typed = any(kind != "json" for kind in self._formats)
        every, formats = zip(*((route.queue, route.deliver.format) for route in pipeline.route), strict=True)
        self._layout = Layout(every, formats, tuple(properties(pipeline)), incarnations, departed)
        #: Called when a batch is in place in all ports, or waits for failing ports.
        self._delivered = delivered
        self._clock = clock
        self._last: int | None = None
        self._began: tuple[int, float] | None = None
        # Waiting batches are carried beside the micro-batches: a port that fails slowly holds up no other.
        self._carriers = Carriers(_THREADS)
        with ThreadPoolExecutor(_THREADS) as threads:
            list(threads.map(Outgoing.claim, self._outgoing))

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Deliver a micro-batch; if it was delivered before, deliver it again."""
        self._began = batch, self._clock()
        try:
            self._deliver(frame, batch)
        finally:
            self._began = None

    def check_age(self, latest: int) -> None:
        """Check that no port is ahead of the checkpoint: a folder's batches would be replaced by the next ones of their numbers, and a box
        would ignore those.
        """
        for outgoing in self._outgoing:
            outgoing.check_age(latest)

    def in_hand(self) -> InHand | None:
        began = self._began
        return InHand(began[0], self._clock() - began[1]) if began is not None else None

    def waiting(self) -> tuple[Waiting, ...]:
        """The destinations that haven't got all their released messages, and destinations whose ports fail."""
        return tuple(rows for outgoing in self._outgoing if (rows := outgoing.waiting()) is not None)

    def carry(self, *, now: bool = False) -> None:
        """Start the delivery of waiting batches, in separate threads; returns at once."""
        self._carriers.collect()
        for outgoing in self._outgoing:
            if outgoing.is_due or (now and outgoing.has_work):
                self._carriers.carry(outgoing.destination, outgoing.carry)

    def settled(self) -> bool:
        return self._carriers.settled()

    def begin_again(self) -> None:
        """Forget failed deliveries; another query begins with this sink. Deliveries under way continue."""
        self._carriers.forget_failures()

    def close(self, given_up: Callable[[], bool] = lambda: False) -> bool:
        """Stop delivering waiting batches; the next sink finds them again."""
        for outgoing in self._outgoing:
            outgoing.stop()
        return self._carriers.wait(given_up)

    def _deliver(self, frame: DataFrame, batch: int) -> None:
        again = self._last is None or batch <= self._last
        self._last = None  # until the batch is done, the content of staging is unknown
        everywhere = range(len(self._outgoing))
        if again:
            with ThreadPoolExecutor(_THREADS) as threads:
                list(threads.map(Outgoing.begin, self._outgoing))
        answers = self._write(frame, everywhere)
        failed = self._put(batch, answers, everywhere if again else ())
        while failed:
            # The other ports have their rows; the rows of the failed ports are written again, for their outboxes.
            failed = self._put(batch, self._write(frame, failed), failed)
        self._delivered(_outcome(batch, answers))
        self._last = batch

    def _write(self, frame: DataFrame, places: Iterable[int]) -> list[Row]:
        """Write files of columns where the packets are opened, and then files of lines, whose text Spark makes."""
        packed = rows_of(frame)
        opening = None if packed is None else opened(frame, packed)
        rows = packed or frame.schema
        if opening is not None and not (self._typed and self._layout.is_straight(rows)):
            frame, opening = frame.mapInArrow(opening, rows), None
        if opening is None:
            frame = self._layout.rows(frame)
            rows = StructType([StructField(field.name, field.dataType) for field in frame.schema])
        outlets = {place: self._outlet(place, rows) for place in places}
        typed = {place: outlet for place, outlet in outlets.items() if outlet.columns}
        lines = {place: outlet for place, outlet in outlets.items() if not outlet.columns}
        if self._typed:
            onward = Parts(typed, self._names, frozenset(lines))
            frame = frame.mapInArrow(onward.passing_on(arrow_schema(frame.sparkSession, rows), opening), rows)
        written = Parts(lines, self._names, answered=self._typed)
        return self._layout.lines(frame).mapInArrow(written.__call__, ANSWER).collect()

    def _outlet(self, place: int, rows: StructType) -> Outlet:
        if place >= len(self._queues):
            port = self._outgoing[place].ready()
            return Outlet(str(port.staging), port.format)
        chosen = self._layout.columns(self._queues[place], self._formats[place], rows)
        port = self._outgoing[place].ready([name for name, _ in chosen])
        return Outlet(str(port.staging), port.format, port.options, chosen)

    def _put(self, batch: int, answers: Iterable[Row], places: Iterable[int]) -> list[int]:
        """Put the files of a batch in place; return the places of the ports that failed, in a task or now. A batch that may be there
        already is put in place even without files, for the ports in `places`.
        """
        failed, parts, rows = _by_port(answers)

        def put(place: int) -> bool:
            return self._outgoing[place].put(batch, parts[place], rows[place], failed.get(place))

        listed = sorted({*places, *parts, *failed})
        with ThreadPoolExecutor(_THREADS) as threads:
            done = list(threads.map(put, listed))
        return [place for place, ok in zip(listed, done, strict=True) if not ok]


def _outgoing(
    session: SparkSession,
    pipeline: Pipeline,
    identity: str,
    *,
    folders: Folders,
    fence: int,
    clock: Callable[[], float],
    lease: DeliveryLease | None,
    last_batch: LastBatch,
) -> list[Outgoing]:
    """The deliveries of all destinations with a port, and of set-aside and unrouted messages."""

    def way(name: str, target: Target, folder: Path, kind: str, options: Mapping[str, str]) -> Outgoing:
        kept = Port(name, folder, kind, options, fence)
        return Outgoing(name, target, Outbox(kept, pipeline.name, identity), clock)

    made = []
    for destination in pipeline.route:
        name, deliver = destination.queue.name, destination.deliver
        options, folder = dict(deliver.options), folders.waiting_for(name)
        if deliver.format == DROP:
            _check_dropped(Port(name, folder, DROP))
        elif deliver.format in FORMATS:
            target: Target = Folder(_port(name, deliver, fence), pipeline.name, identity)
            made.append(way(name, target, folder, deliver.format, options))
        elif deliver.format == TABLE:
            if lease is None:
                raise UsageError("a table needs claims: journal", where=f"destination {name}")
            made.append(way(name, Claimed(name, lease), folder, "parquet", {}))
        else:
            target = (
                BoxSink(session, f"{identity} {name}", options, fence, last_batch)
                if deliver.format == BOX
                else SparkSink(session, deliver.format, deliver.path, options, by_number=lease is not None)
            )
            if lease is not None:
                target = Claimed(name, lease, target)
            made.append(way(name, target, folder, "parquet", {}))
    for name, root in ((SET_ASIDE, folders.set_aside), (UNROUTED, folders.unrouted)):
        target = Folder(Port(name, root.absolute(), "json", fence=fence), pipeline.name, identity)
        made.append(way(name, target, folders.waiting_own(name), "json", {}))
    return made


def _check_dropped(waiting: Port) -> None:
    """Check that no batch waits that was released before its destination was set to drop."""
    if batches := waiting.batches():
        raise CheckpointMismatch(
            f"{counted(len(batches), 'batch waits', 'batches wait')} for {waiting.destination}, which has no port any more",
            where=str(waiting.root),
            remedy="give it its former port until they are delivered",
        )


def _port(name: str, deliver: Deliver, fence: int) -> Port:
    if deliver.path is None:
        raise UsageError("the port names no path", where=f"destination {name}")
    check_options(name, deliver.format, deliver.options)
    return Port(name, deliver.path.absolute(), deliver.format, dict(deliver.options), fence)


def _by_port(answers: Iterable[Row]) -> tuple[dict[int, str], dict[int, list[tuple[str, str]]], Counter[int]]:
    """The reasons of failed ports, the files of the others, and their numbers of rows."""
    failed: dict[int, str] = {}
    parts: dict[int, list[tuple[str, str]]] = defaultdict(list)
    rows: Counter[int] = Counter()
    for row in answers:
        if row.kind == "failed":
            failed[row.port] = row.text
        elif row.kind == "part":
            parts[row.port].append((row.text, row.name))
            rows[row.port] += row.rows
    return failed, parts, rows


def _outcome(batch: int, answers: Sequence[Row]) -> Delivered:
    counts: Counter[tuple[str, str]] = Counter()
    for row in answers:
        if row.kind == "count":
            counts[row.destination, row.disposition] += row.rows
    reports = tuple(row.text for row in answers if row.kind == "report")
    tasks = tuple(row.rows for row in answers if row.kind == "task")
    reasons = tuple(SetAsideReason.from_json(row.text) for row in answers if row.kind == "reason")
    return Delivered(batch, dict(counts), reports, tasks, reasons)


def start(
    frame: DataFrame,
    sink: Sink,
    *,
    name: str,
    checkpoint: Path,
    trigger_s: float | None,
    available_now: bool = False,
    before: Callable[[int], None] = lambda _: None,
) -> StreamingQuery:

    def deliver(decided: DataFrame, batch: int) -> None:
        before(batch)
        sink(decided, batch)

    writer = frame.writeStream.queryName(name).option("checkpointLocation", str(checkpoint))
    if available_now:
        writer = writer.trigger(availableNow=True)
    elif trigger_s is None:
        writer = writer.trigger(once=True)
    else:
        writer = writer.trigger(processingTime=f"{round(trigger_s * 1000)} milliseconds")
    return writer.foreachBatch(deliver).start()
