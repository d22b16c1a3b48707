"""The stateful operator: a Spark ``StatefulProcessor`` over buckets of groups, and the same for batch frames."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from seriatim.errors import InvariantBroken
from seriatim.kernel import resequence as kernel
from seriatim.kernel.values.time import FOREVER, NEVER
from seriatim.spark.control.commands import Command, CommandResult
from seriatim.spark.control.due import BIT, DUE, SLOT, bit_at, place_of
from seriatim.spark.control.log import COMMAND, FINISH
from seriatim.spark.resequence.bucket import Bucket, Plan
from seriatim.spark.resequence.commands import REMEMBERED, commands_in, in_calls
from seriatim.spark.resequence.first_numbers import START_KEY, START_NEXT, START_QUEUE, first_numbers_in
from seriatim.spark.resequence.left_out import Share
from seriatim.spark.resequence.resubmitted import answer_to, never_late, row_of
from seriatim.spark.session.collector import freeze_loaded
from seriatim.spark.stamp.counts import TicketsByCounts
from seriatim.spark.state.buckets import bucket_ids
from seriatim.spark.state.cold_groups import ColdGroups
from seriatim.spark.state.group_index import Index, QueueState
from seriatim.spark.state.held_bodies import Bodies, MemoryChunks
from seriatim.spark.state.manifest import is_cut_alike
from seriatim.spark.state.moved_files import INDEX, read_moved
from seriatim.spark.state.packets import InArrow, from_bytes, to_bytes

if TYPE_CHECKING:
    import pandas as pd

#: Columns beside a packet. A row of the control source has a kind, and as JSON what it needs; `NOW`: the batch's time.
KIND, CONTENT, NOW = "kind", "content", "now"


class _StateChunks:
    def __init__(self, bodies: Any) -> None:
        self._bodies = bodies

    def get(self, chunk: int) -> bytes:
        return bytes(self._bodies.getValue((chunk,))[0])

    def put(self, chunk: int, packet: bytes) -> None:
        self._bodies.updateValue((chunk,), (packet,))

    def delete(self, chunk: int) -> None:
        self._bodies.removeKey((chunk,))


class Resequencer(StatefulProcessor):
    """Resequences one bucket in each call. State: one value (the index) and a map of chunks of held bodies. A key below 0 isn't a bucket,
    but has the counters of its partition, by which tickets are given.
    """

    def __init__(self, plan: Plan, schema: bytes) -> None:
        self._plan = plan
        #: The Arrow schema of the user's columns, as an IPC message.
        self._schema = schema
        self._tickets = None if plan.tickets is None else TicketsByCounts(plan.tickets)

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the state; Spark calls it once for each task, and once on the driver."""
        freeze_loaded()
        self._handle = handle
        self._index = handle.getValueState("index", "value binary")
        self._bodies = handle.getMapState("bodies", "chunk long", "packet binary")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        """Judge arrivals, and then due timers: a micro-batch is an `offer` followed by an `advance`."""
        packets: list[bytes] = []
        kinds: set[str] = set()
        reports: list[str] = []
        now = NEVER
        if int(key[0]) < 0:
            self._count(rows)
            return
        for frame in rows:
            packets += [bytes(packet) for packet in frame["packet"] if packet is not None]
            kinds.update(kind for kind in frame[KIND] if isinstance(kind, str))
            if COMMAND in kinds:
                reports.extend(frame.loc[frame[KIND] == COMMAND, CONTENT])
            now = max(now, int(frame[NOW].max()))
        index = self._load(int(key[0]))
        tables = [from_bytes(packet) for packet in packets if packet]
        if self._tickets is not None:
            tables = [self._tickets.stamped(table) for table in tables]
        at, now = now, self._now(now, timerValues)
        earlier, commands = in_calls(commands_in(reports))
        before, decided = self._put_back(index, earlier, now, at) if earlier else ([], [])
        bucket = self._bucket(index, tables)
        obeyed = bucket.obey(commands, now, at) if commands else False
        # A tick that finds nothing due changes nothing. A witness leaves a state, though its packet is empty.
        if packets or before or obeyed or FINISH in kinds or bucket.due() <= now or index.departed:
            decided += self._call(index, bucket, now, finish=FINISH in kinds)
        elif self._set_timer(index, bucket):  # a move has left none, or time-outs are others now
            self._index.update((index.to_bytes(),))
        for call in reversed(before):
            bucket.carry_on(call)
        yield from self._told(key, bucket, decided)

    def _count(self, rows: Iterator[Any]) -> None:
        """Count the messages of a batch for the tickets of this partition's buckets; Spark calls it before them."""
        if self._tickets is None:
            raise InvariantBroken("tasks tell how many messages they have, and tickets aren't given by counts")
        value = self._index.get()
        told = [bytes(packet) for frame in rows for packet in frame["packet"]]
        self._index.update((self._tickets.count(None if value is None else value[0], told),))

    def _put_back(
        self, index: Index, earlier: Sequence[tuple[list[Command], list[Command]]], now: int, at: int
    ) -> tuple[list[Bucket], list[bytes]]:
        """Put messages back by commands, in separate calls before the call for the data."""
        schema, plan = pa.ipc.read_schema(pa.py_buffer(self._schema)), never_late(self._plan)
        calls: list[Bucket] = []
        packets: list[bytes] = []
        known = set(index.obeyed)
        for commands, again in earlier:
            for_us: list[Command] = []
            rows: list[pa.Table] = []
            refused: list[CommandResult] = []
            for command in again:
                row = row_of(command, plan, schema, obeyed=known, place=len(rows))
                if isinstance(row, CommandResult):
                    refused.append(row)
                    continue
                for_us.append(command)
                rows.append(row)
                known.add(command.id)
            bucket = self._bucket(index, rows, plan)
            if commands:
                bucket.obey(commands, now, at)
            packets += [to_bytes(table).to_pybytes() for table in bucket.take(now)]
            answers = [answer_to(command, became) for command, became in zip(for_us, bucket.became(), strict=True)]
            index.obeyed = (*index.obeyed, *(command.id for command in for_us))[-REMEMBERED:]
            by_queue = Counter(str(command.queue) for command in for_us)
            bucket.has_put_back([{**answer.to_json(), "at": at} for answer in refused + answers], by_queue)
            calls.append(bucket)
        return calls, packets

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        """Judge timers of the event clock that are due, if nothing arrived."""
        index = self._load(int(key[0]))
        if index.timer is not None and index.timer == expiredTimerInfo.getExpiryTimeInMs():
            index.timer = None  # Spark deletes it after this call
            bucket = self._bucket(index, [])
            yield from self._told(key, bucket, self._call(index, bucket, self._now(NEVER, timerValues)))

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:  # noqa: N802, N803
        """Add groups that don't begin at the policy's start."""
        index = self._load(int(key[0]))
        for packet in initialState["packet"]:
            enrol_first(self._plan, index, from_bytes(bytes(packet)))
        self._index.update((index.to_bytes(),))

    def close(self) -> None:
        """Do nothing."""

    def _load(self, bucket: int) -> Index:
        value, plan = self._index.get(), self._plan
        if plan.moved is not None and (
            value is None or not is_cut_alike(Index.fingerprint_of(value[0]), plan.fingerprint)
        ):
            value = self._take_over(Path(plan.moved), bucket)
        return index_of(plan, bucket, None if value is None else value[0])

    def _take_over(self, folder: Path, bucket: int) -> tuple[bytes] | None:
        """Read the state that a move has written in place of Spark's state; return the index."""
        self._bodies.clear()
        packets = read_moved(folder, bucket) if bucket in bucket_ids(self._plan.buckets) else {}
        for chunk, packet in packets.items():
            if chunk != INDEX:
                self._bodies.updateValue((chunk,), (packet,))
        index = packets.get(INDEX) or Index(self._plan.fingerprint).to_bytes()
        self._index.update((index,))
        return (index,)

    def _bucket(self, index: Index, tables: list[pa.Table], plan: Plan | None = None) -> Bucket:
        schema = pa.ipc.read_schema(pa.py_buffer(self._schema))
        if self._plan.destination is not None:
            schema = schema.remove(schema.get_field_index(self._plan.destination))
        if tables:
            schema = tables[0].select(self._plan.carried).schema
        chunks = _StateChunks(self._bodies)
        bodies = Bodies(chunks, index.chunks, schema)
        index.steps = self._plan.steps
        cold = ColdGroups(index, chunks) if self._plan.expires or index.cold else None
        return Bucket(plan or self._plan, index, bodies, tables, cold)

    def _call(self, index: Index, bucket: Bucket, now: int, *, finish: bool = False) -> Iterator[bytes]:
        for table in bucket.take(now, finish=finish):
            yield to_bytes(table).to_pybytes()
        self._set_timer(index, bucket)
        self._index.update((index.to_bytes(),))

    def _told(self, key: Any, bucket: Bucket, packets: Iterable[bytes]) -> Iterator[pd.DataFrame]:
        """Return the packets of a call, and in the row of the last packet the report of the bucket after the call. That is the report, if
        one is wanted, and when something is due in the bucket again.
        """
        last = None
        for packet in packets:
            if last is not None:
                yield self._row(last, None, -1, 0, FOREVER)
            last = packet
        number = int(key[0])
        report = bucket.report(number) if self._plan.reports else None
        slot, place = place_of(number, self._plan.buckets)
        if last is not None or report is not None or self._plan.ticks:
            yield self._row(last, report, slot, bit_at(place), bucket.due())

    @staticmethod
    def _row(packet: bytes | None, report: str | None, slot: int, bit: int, due: int) -> pd.DataFrame:
        """A row, with numbers that are never missing: others would become floats, which lose microseconds."""
        import pandas as pd  # noqa: PLC0415 -- the start of a query, in a process of its own, doesn't need it

        return pd.DataFrame({"packet": [packet], "report": [report], SLOT: [slot], BIT: [bit], DUE: [due]})

    def _now(self, batch: int, times: Any) -> int:
        if self._plan.clock == "processing":
            return batch
        # Before any event time Spark reports 0, which is no watermark: events may be older than 1970.
        watermark = int(times.getCurrentWatermarkInMs()) * 1000
        return watermark if watermark > 0 else NEVER

    def _set_timer(self, index: Index, bucket: Bucket) -> bool:
        """By the event clock, set the one timer of a bucket at the next due time; return whether that has changed the index."""
        if self._plan.clock != "event":
            return False
        due = bucket.due()
        # Rounded up, so that everything due is due when the timer fires.
        wanted = -(-due // 1000) if due < FOREVER else None
        if wanted == index.timer:
            return False
        if index.timer is not None:
            self._handle.deleteTimer(index.timer)
        if wanted is not None:
            self._handle.registerTimer(wanted)
        index.timer = wanted
        return True


def index_of(plan: Plan, bucket: int, value: bytes | None) -> Index:
    """A bucket's state, with the groups of first numbers that it doesn't know yet."""
    index = Index(plan.fingerprint) if value is None else Index.from_bytes(value, plan.fingerprint, plan.history)
    for name, folder in ({} if plan.history is None else plan.history.first_numbers).items():
        if name not in index.queues:
            enrol_first(plan, index, first_numbers_in(Path(folder), bucket), only=name)
    return index


def enrol_first(plan: Plan, index: Index, rows: pa.Table, *, only: str | None = None) -> None:
    """Add groups with their first numbers to an index that doesn't have them yet."""
    for queue in plan.queues:
        name = "" if plan.destination is None else queue.name
        if only not in (None, name):
            continue
        own = rows.filter(pc.equal(rows.column(START_QUEUE), name))
        if own.num_rows or only is not None:
            first = own.column(START_NEXT).to_numpy().astype(np.int64)
            keys = own.column(START_KEY).combine_chunks().cast(pa.binary())
            state = kernel.new_state(queue.policy, len(first), first)
            index.queues[queue.name] = QueueState(keys, state, plan.incarnation(queue.name))


def resequence_to_the_end(
    plan: Plan, until: str | None, *, finish: bool, left_out: Callable[[dict[int, Share]], None] | None = None
) -> InArrow:
    """All buckets of a partition of a batch frame, from an empty state to the end. Packets come as (bucket, packet, first), `first` a
    packet of first numbers. `until` names a column of the packets' rows with the time to which the clock moves at the end (microseconds).
    `left_out` is called at the end of a partition, with the share of each of its buckets.
    """

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        packets: dict[int, list[pa.Table]] = defaultdict(list)
        firsts: dict[int, list[pa.Table]] = defaultdict(list)
        for batch in batches:
            for bucket, packet, first in zip(*(batch.column(n) for n in range(3)), strict=True):
                into = firsts if first.as_py() else packets
                into[bucket.as_py()].append(from_bytes(packet.as_buffer()))
        shares: dict[int, Share] = {}
        for bucket in sorted(packets):
            tables = packets.pop(bucket)
            index = Index(plan.fingerprint)
            for first in firsts.get(bucket, []):
                enrol_first(plan, index, first)
            schema = tables[0].select(plan.carried).schema
            now = 0 if until is None else _latest(tables, until)
            call = Bucket(plan, index, Bodies(MemoryChunks({}), index.chunks, schema), tables)
            for table in call.take(now, finish=finish, final=True):
                yield from table.to_batches()
            shares[bucket] = call.share()
        if left_out is not None:
            left_out(shares)

    return run


def _latest(tables: list[pa.Table], column: str) -> int:
    moments = [pc.max(table.column(column)).as_py() for table in tables]
    return max((moment for moment in moments if moment is not None), default=NEVER)
