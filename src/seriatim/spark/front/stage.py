"""The front of a pipeline: its locations' text in, packets for the operator out, in one stage of Spark.

A task reads lines (`receive`), numbers the messages of each block, finds their destinations, and packs each message once for every bucket;
Spark's own process moves bytes only. Tickets follow in the operator; see `stamp/counts.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

from seriatim.errors import InvariantBroken
from seriatim.kernel.filters.filter import Expression
from seriatim.kernel.values.columns import Ints
from seriatim.pipeline.declared.pipeline import Pipeline
from seriatim.spark.calls.register import Calling
from seriatim.spark.front.chosen import column_types, filter_of
from seriatim.spark.front.places import BUCKET, Places
from seriatim.spark.receive.gz_files import numbered, runs
from seriatim.spark.receive.text_files import Receiving, lines_of, text_of
from seriatim.spark.receive.text_lines import START, LineReader
from seriatim.spark.resequence.decided_packets import NOWHERE
from seriatim.spark.session.requirements import make_ready
from seriatim.spark.stamp.counts import BLOCK, COUNTS, NTH
from seriatim.spark.state.buckets import bucket_ids, partition_keys
from seriatim.spark.state.packets import EACH, one_packet, pack_by, to_bytes

#: A column beside packets, in one row of a task: how many messages it has received, how many go to each destination, and how many to none.
COUNTED = "counted"
_FRONT_SCHEMA = f"bucket int, packet binary, {COUNTED} array<bigint>"
_PARTITIONS = "spark.sql.shuffle.partitions"
#: How many they are where nobody has said it; with another number the operator would miss its counts, and refuse the batch.
_DEFAULT_PARTITIONS = 200


def front(spark: SparkSession, pipeline: Pipeline, columns: bytes, buckets: int) -> DataFrame:
    """The packets of a pipeline's messages, with `COUNTED`; `columns`: the schema of the messages, without ticket and destination."""
    types = column_types(pipeline)
    queues = [one.queue for one in pipeline.route]

    def filters(what: str) -> dict[str, Expression]:
        texts = {one.name: getattr(one.group, what, None) or getattr(one.policy, what, None) for one in queues}
        return {
            name: filter_of(text, types, f"queue {name!r}: {what}")
            for name, text in texts.items()
            if isinstance(text, str)
        }

    places = Places(
        tuple(filter_of(one.where, types, f"subscription {one.queue.name!r}") for one in pipeline.route),
        (*queues, NOWHERE),
        buckets,
        opens=filters("opens"),
        closes=filters("closes"),
        last=filters("last"),
    )
    how = Receiving.of(spark, pipeline, Calling())
    frames = []
    for entry in pipeline.receive:
        text, lines = text_of(how, entry), replace(lines_of(how, entry), with_starts=True)
        worker = _Front(lines, entry.location, entry.stamp is not None, columns, places)
        make_ready(text)
        frames.append(text.mapInArrow(worker.__call__, _FRONT_SCHEMA))
    return reduce(DataFrame.unionByName, frames)


@dataclass(frozen=True, slots=True)
class _Front:
    """The work of a task at one location, for ``mapInArrow``."""

    lines: LineReader
    location: str
    is_stamped: bool
    #: The Arrow schema of a message's columns, as an IPC message.
    columns: bytes
    places: Places

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Convert (body, path, block, received_at) to packets."""
        task = _Task(self)
        ids = bucket_ids(self.places.buckets)
        for packet in pack_by(BUCKET, ids)(task.placed(batches)):
            yield _row(packet, None)
        if not task.received:
            return
        # As `with_witness` does: one bucket that always exists takes part, and shows how the query was started.
        yield _row(one_packet(0, pa.py_buffer(b"")), [task.received, *task.counts.tolist()])
        if self.is_stamped:
            told = to_bytes(task.told())
            for key in partition_keys(_partitions()):
                yield _row(one_packet(key, told), None)


class _Task:
    def __init__(self, front: _Front) -> None:
        self._front = front
        self._columns = pa.ipc.read_schema(pa.py_buffer(front.columns))
        self._find = front.places.finder()
        self._blocks: list[tuple[int, str, int]] = []
        self._sizes: list[int] = []
        self.received = 0
        self.counts = np.zeros(len(front.places.queues), np.int64)

    def placed(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for read in self._front.lines(batches):
            if not read.num_rows:
                continue
            count = read.num_rows
            messages = self._whole(read)
            found = self._find(messages)
            self.received += count
            self.counts += found.counts
            block, nth = self._numbered(read)
            columns = [messages.column(field.name).cast(field.type) for field in self._columns]
            added = {BLOCK: pa.array(block), NTH: pa.array(nth), EACH: found.each}
            schema = pa.schema([*self._columns, *(pa.field(name, column.type) for name, column in added.items())])
            yield pa.RecordBatch.from_arrays([*columns, *added.values()], schema=schema)

    def told(self) -> pa.Table:
        times, files, starts = zip(*self._blocks, strict=True)
        numbers = self._first_number() + np.arange(len(self._blocks))
        location = [self._front.location] * len(self._blocks)
        return pa.table([pa.array(numbers), location, times, files, starts, self._sizes], schema=COUNTS)

    def _whole(self, read: pa.RecordBatch) -> pa.RecordBatch:
        """The messages with all columns that a message of the pipeline has."""
        columns = {name: read.column(name) for name in read.schema.names}
        columns["location"] = pa.array([self._front.location]).take(pa.array(np.zeros(read.num_rows, np.int8)))
        for field in self._columns:
            columns.setdefault(field.name, pa.nulls(read.num_rows, field.type))
        return pa.RecordBatch.from_pydict(columns)

    def _numbered(self, read: pa.RecordBatch) -> tuple[Ints, Ints]:
        """The block of each message, and which of its messages with tickets it is."""
        time = read.column("received_at").cast(pa.int64()).to_numpy()
        start = read.column(START).to_numpy()
        block, nth = np.empty(len(time), np.int64), np.full(len(time), -1, np.int64)
        valid = read.column("_invalid").is_null().to_numpy(zero_copy_only=False) & self._front.is_stamped
        for begin, end in runs(time, numbered(read.column("_file")), start):
            named = (int(time[begin]), read.column("_file")[begin].as_py(), int(start[begin]))
            if not self._blocks or self._blocks[-1] != named:
                self._blocks.append(named)
                self._sizes.append(0)
            block[begin:end] = self._first_number() + len(self._blocks) - 1
            rows = begin + np.flatnonzero(valid[begin:end])
            nth[rows] = self._sizes[-1] + np.arange(len(rows))
            self._sizes[-1] += len(rows)
        return block, nth

    @staticmethod
    def _first_number() -> int:
        """The number of a task's first block: of all tasks of a batch each has others."""
        return _context().partitionId() << 32


def _context() -> TaskContext:
    context = TaskContext.get()
    if context is None:
        raise InvariantBroken("the front of a pipeline works in Spark's tasks only")
    return context


def _partitions() -> int:
    """The number of the operator's partitions: a checkpoint keeps the one that it began with, whatever the session's is."""
    told = _context().getLocalProperty(_PARTITIONS)
    return _DEFAULT_PARTITIONS if told is None else int(told)


def _row(packet: pa.RecordBatch, counted: list[int] | None) -> pa.RecordBatch:
    return packet.append_column(COUNTED, pa.array([counted], pa.list_(pa.int64())))
