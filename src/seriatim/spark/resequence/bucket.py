"""One bucket of groups during one call: packets in, decided messages out. The kernel makes every decision."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from seriatim.kernel import resequence as kernel
from seriatim.kernel.groups.arrivals import NOT_SAID, Arrivals
from seriatim.kernel.groups.numbers import RESTARTS, UNNUMBERED, by_position
from seriatim.kernel.groups.policy import Fifo, FifoMerged, Policy, Standard, UnitOfWork, Unordered, has_clock
from seriatim.kernel.groups.positions import ranked
from seriatim.kernel.groups.sequence import key_problem
from seriatim.kernel.groups.state import NOTHING, Flag, Held, State
from seriatim.kernel.operators.expiry import expired, tombstones
from seriatim.kernel.operators.held_groups import HeldGroups, held_groups
from seriatim.kernel.policies.copies import regions_of, without_old
from seriatim.kernel.policies.restarts import suspects_restart
from seriatim.kernel.values.columns import Bools, Ints, empty_ints, mask_of, order_by, order_by_group
from seriatim.kernel.values.outcome import REASONS, Decided, Disposition, EventKind, Events, Reason, numbers_in, runs_of
from seriatim.kernel.values.time import FOREVER, NEVER, micros
from seriatim.pipeline.declared.queue import Queue
from seriatim.spark.control.commands import Command
from seriatim.spark.resequence.bucket_events import told_events
from seriatim.spark.resequence.commands import Obeying
from seriatim.spark.resequence.group_views import stopped
from seriatim.spark.resequence.left_out import Share
from seriatim.spark.stamp.operator import StampPlan
from seriatim.spark.state.cold_groups import ColdGroups, cold_counts
from seriatim.spark.state.destination_history import DestinationHistory
from seriatim.spark.state.group_index import Index, QueueState, joined
from seriatim.spark.state.held_bodies import Bodies, chunk_of, first_ref, row_of
from seriatim.spark.state.packets import opened, slices

#: How many of the groups that hold messages a report names.
LONGEST = 10
#: How many of the holes that a call has skipped a report names.
MOST_SKIPPED = 10
#: The most groups with a suspected restart of their producer that a report names.
MOST_SUSPECTED = 10
#: How many numbers that sets lack a table has at most.
_MOST_NUMBERS = 1_000_000
#: Why the messages are dead that a destination held when it was taken away.
_ABANDONED = "its destination was taken away"
#: How many groups of a queue must have expired before they leave a bucket's index: they are written at once, as a run.
LEAST_PUT_AWAY = 256
#: Known keys are looked up among those of a call if there are that many times as many.
_MANY = 8

# Columns that travel with a message through the operator where they are needed.
KEY, SEQUENCE, PROBLEM = "__sq_key", "__sq_sequence", "__sq_problem"
TIME, SIZE, TIE = "__sq_time", "__sq_size", "__sq_tie"
VOID, FINGERPRINT = "__sq_void", "__sq_fingerprint"
THROUGH, EPOCH, POSITION = "__sq_through", "__sq_epoch", "__sq_position"


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of the operator; it is sent to the workers. `destination` is the column that names a row's queue, if there are several; a
    row that names none goes to the first, which sets it aside. Their policies are as they are judged here: they say, too, whether messages
    open and close groups. `invalid` is the column with the reason why a row is no message, `user` are the names of the user's columns.
    `arrivals`: the columns, or fields in them, that decide the order of equal sequences (none: a hash of the row). `buckets` is the number
    of buckets. `history`: of a pipeline, whose destinations may come and go. `by_key`: whether a group's bucket goes by its key alone.
    `moved`: the folder with the state from before the number of buckets was changed. `region`: the user's column that says which of two
    regions has sent a message; None: there is one. `tickets`: how tickets are given by counts; None: messages come with theirs. `claims`:
    what has left is counted by its number, so that no late message leaves. `numbers`: the columns that say more of a message's number (see
    `shown_of`), by what they say.
    """

    queues: tuple[Queue, ...]
    destination: str | None
    invalid: str | None
    user: tuple[str, ...]
    clock: Literal["processing", "event"]
    arrivals: tuple[tuple[str, ...], ...]
    output: Literal["released", "all"]
    reports: bool
    fingerprint: str
    buckets: int
    history: DestinationHistory | None = None
    by_key: bool = False
    moved: str | None = None
    region: str | None = None
    tickets: StampPlan | None = None
    claims: bool = False
    numbers: Mapping[str, str] = field(default_factory=dict)

    @property
    def has_clocks(self) -> bool:
        """Whether something can be due, so that a start wakes the operator: its state may be of other time-outs."""
        return any(has_clock(queue.policy) for queue in self.queues)

    @property
    def ticks(self) -> bool:
        """Whether the operator is also woken when something is due; by the event clock it sets timers of Spark's."""
        return self.clock == "processing" and self.has_clocks

    @property
    def carried(self) -> list[str]:
        """The user's columns that belong to a message, to whichever queues it goes."""
        return [name for name in self.user if name != self.destination]

    def incarnation(self, queue: str) -> int:
        return 1 if self.history is None else self.history.incarnation(queue)

    @property
    def expires(self) -> bool:
        return any(queue.group.expire_after is not None for queue in self.queues)

    @property
    def forgets(self) -> bool:
        """Whether groups of a queue are forgotten, so that released messages have an incarnation."""
        return any(queue.group.expire_to == "nothing" for queue in self.queues)

    @property
    def steps(self) -> dict[str, int]:
        """The increments of the queues where they aren't 1."""
        standard = [(queue.name, queue.policy) for queue in self.queues if isinstance(queue.policy, Standard)]
        return {name: policy.increment for name, policy in standard if policy.increment != 1}


class Became(NamedTuple):
    """The fate of a row in a call: its disposition, and the reason if it was set aside."""

    disposition: str
    reason: str | None = None


class Bucket:
    def __init__(
        self, plan: Plan, index: Index, bodies: Bodies, packets: list[pa.Table], cold: ColdGroups | None = None
    ) -> None:
        self._plan = plan
        self._index = index
        self._bodies = bodies
        self._cold = cold
        # The input: a row for each queue of a message, the messages, and for each row the place of its message.
        self._arrived, self._messages, self._places = opened(packets)
        self._rows: list[Ints] = []  # rows of the arrivals, in the order of their refs
        self._chunk = index.chunk
        self._refs = first_ref(index.chunk)
        self._out: list[_Decision] = []
        self._skipped: list[tuple[str, str, int, int]] = []
        self._skipped_holes = self._skipped_numbers = 0
        self._counts = empty_ints(len(Disposition))
        self._answers: list[dict[str, Any]] = []
        self._events: list[dict[str, Any]] = []
        self._put_back: Counter[str] = Counter()
        self._found = self._queues_of_rows()
        self._refused = self._why_refused()

    def take(self, now: int, *, finish: bool = False, final: bool = False) -> Iterator[pa.Table]:
        """Judge arrivals and due timers, store held messages, and return the decided messages, in order."""
        if self._plan.clock == "processing":
            self._index.now = now = max(now, self._index.now)
        self._abandon()
        rows = self._rows_by_queue()
        for number, queue in enumerate(self._plan.queues):
            self._queue(queue, rows.get(number, empty_ints()), now, finish=finish)
        self._put_away(now)
        if final:
            self._show_held()
        else:
            self._keep()
        yield from self._tables()

    def obey(self, commands: list[Command], now: int, at: int) -> bool:
        """Obey operators' commands, before `take`; return whether that has changed anything."""
        if self._plan.clock == "processing":
            now = max(now, self._index.now)
        for name in {command.queue for command in commands if command.key is not None}:
            if name in self._index.queues:
                keys = sorted({str(one.key).encode() for one in commands if one.queue == name})
                self._index.queues[name] = self._taken_back(name, self._index.queues[name], pa.array(keys, pa.binary()))
        obeying = Obeying(
            self._plan.queues, self._index, self._bodies, self._cold,
            now=now, decide=self._obeyed, without_groups=self._without_groups,
        )  # fmt: skip
        self._answers = [{**answer, "at": at} for answer in obeying.obey(commands)]
        return obeying.changed

    def _without_groups(self, queue: Queue) -> QueueState:
        none = kernel.new_state(queue.policy, 0)
        return QueueState(pa.array([], pa.binary()), none, self._plan.incarnation(queue.name))

    def became(self) -> list[Became]:
        """Return the fate of each row that arrived, in order; after `take`, with ``output="all"``."""
        fates = [Became(Disposition.HELD.word)] * self._arrived.num_rows
        where = np.concatenate(self._rows) if self._rows else empty_ints()
        for decision in self._out:
            is_here = chunk_of(decision.refs) == self._chunk
            rows = where[row_of(decision.refs[is_here])].tolist()
            words = (column.filter(pa.array(is_here)).to_pylist() for column in (decision.disposition, decision.reason))
            for row, disposition, reason in zip(rows, *words, strict=True):
                fates[row] = Became(disposition, reason)
        return fates

    def has_put_back(self, answers: list[dict[str, Any]], by_queue: Mapping[str, int]) -> None:
        """Note that commands put its rows back: the answers to them, and how many rows each queue took in."""
        self._answers += answers
        self._put_back.update(by_queue)

    def carry_on(self, before: Bucket) -> None:
        """Report the results of the preceding call for the same batch, too."""
        self._answers = [*before._answers, *self._answers]
        self._events = [*before._events, *self._events]
        self._skipped = [*before._skipped, *self._skipped][:MOST_SKIPPED]
        self._skipped_holes += before._skipped_holes
        self._skipped_numbers += before._skipped_numbers
        self._put_back += before._put_back

    def _present(self) -> list[tuple[Queue, QueueState]]:
        known = self._index.queues
        return [(queue, known[queue.name]) for queue in self._plan.queues if queue.name in known]

    def due(self) -> int:
        """When the bucket's next timer is due, microseconds; `FOREVER` if none runs."""
        moments = [kernel.due(queue.policy, known.state) for queue, known in self._present()]
        return min((int(each.min()) for each in moments if len(each)), default=FOREVER)

    def report(self, bucket: int) -> str:
        """The content of the bucket with that id, by queue, as JSON, for monitoring. ``longest`` are the groups that have waited longest:
        queue, group, how many messages it holds, the first run of numbers that it misses, since when (microseconds), and why; see
        `HeldGroups`. ``skipped``, only if there are any: the holes that this call has skipped, how many and how many numbers, and the first
        of them: queue, group, first and last number. ``suspected``, only if there are any: the groups whose producer seems to have begun
        anew, how many, and the first of them: queue, group, the number of the last message that tells so. ``answers``, only if there are
        any: those to operators' commands. ``events``, likewise: what happened to groups in this call. ``put_back``, likewise: how many
        messages operators have put back, by queue. ``stopped``: how many groups aren't ready, and some of them, as `views` has them.
        """
        known, present = self._index.queues, self._present()
        held = {name: len(queue.state.held.messages()) for name, queue in known.items()}
        cold = cold_counts(self._index.cold)
        waiting = {
            queue.name: (groups.keys, held_groups(queue.policy, groups.state))
            for queue, groups in present
            if held[queue.name]
        }
        figures: dict[str, object] = {
            "bucket": bucket,
            "held": held,
            "holes": {
                queue.name: _open_holes(groups.state) for queue, groups in present if isinstance(queue.policy, Standard)
            },
            "groups": {name: len(queue.state) + cold.get(name, 0) for name, queue in known.items()},
            "held_groups": {name: len(count) for name, (_, count) in waiting.items()},
            "longest": _longest(waiting),
        }
        if self._skipped_holes:
            numbers = self._skipped_numbers
            figures["skipped"] = {"holes": self._skipped_holes, "numbers": numbers, "first": self._skipped}
        suspected = [suspect for queue, groups in present for suspect in _suspected(queue, groups)]
        not_ready = [stopped(queue.name, queue.policy, groups) for queue, groups in present]
        views = [view for _, group_views in not_ready for view in group_views]
        figures["stopped"] = {"groups": sum(many for many, _ in not_ready), "first": views}
        more = {"answers": self._answers, "events": self._events, "put_back": self._put_back}
        figures |= {name: entries for name, entries in more.items() if entries}
        if suspected:
            figures["suspected"] = {"groups": len(suspected), "first": sorted(suspected)[:MOST_SUSPECTED]}
        return json.dumps(figures)

    def share(self) -> Share:
        """The arrived messages by disposition, and the groups that hold some, for the log."""
        counts = self._counts.copy()
        groups, first = 0, None
        for queue, known in self._present():
            count = len(known.state.held.messages())
            if not count:
                continue
            counts[Disposition.HELD] += count
            of_groups = held_groups(queue.policy, known.state)
            groups += len(of_groups)
            if first is None:
                run = [None if number == NOTHING else int(number) for number in (of_groups.first[0], of_groups.last[0])]
                first = queue.name, known.keys[int(of_groups.group[0])].as_py().decode(), run[0], run[1]
        return dict(enumerate(counts.tolist())), groups, first

    # ---- one queue

    def _queue(self, queue: Queue, rows: Ints, now: int, *, finish: bool) -> None:
        if isinstance(queue.policy, Unordered):
            _, rows = self._problems(rows, queue)
            void = self._voids()
            if void is not None:
                leaves_nothing = rows[void[rows]]
                rows = rows[~void[rows]]
                reasons = _words(np.full(len(leaves_nothing), Reason.LEAVES_NOTHING))
                self._emit(queue, leaves_nothing, Disposition.VOID, reasons)
            self._emit(queue, rows, Disposition.RELEASED, _words(empty_ints(len(rows))))
            return
        if not len(rows) and queue.name not in self._index.queues:
            return
        rows, group, keys = self._groups_of(queue, rows)
        known = self._index.queues.get(queue.name) or self._without_groups(queue)
        known = self._without_forgotten(queue, known, now)
        known, group = _enrol(queue.policy, self._taken_back(queue.name, known, keys), keys, group)
        group, arrivals = self._arrivals(queue.policy, rows, group, now)
        known, arrivals, every = self._ranked(queue.policy, known, arrivals)
        bare = _bare(queue.policy, known.state.held, arrivals)
        judged = self._judge(queue.policy, known.state, arrivals, now, finish=finish)
        state, decided, events = judged.state, judged.decided, judged.events
        if isinstance(queue.policy, FifoMerged) and now != NEVER:
            state = without_old(queue.policy, state, now)
        known = known.with_positions(every, state) if by_position(queue.policy) else known.with_state(state)
        self._index.queues[queue.name] = known
        self._note_skipped(queue, known.keys, events)
        if self._plan.reports and len(events):
            self._events += told_events(queue, known, events)
        self._decide(queue, known, decided, bare, events)

    def _without_forgotten(self, queue: Queue, known: QueueState, now: int) -> QueueState:
        """Return the groups without those that have expired to nothing; a message for one of them begins a new incarnation."""
        if queue.group.expire_after is None or queue.group.expire_to != "nothing" or self._cold is None:
            return known
        forgotten = expired(queue.policy, known.state, now, micros(queue.group.expire_after))
        if not len(forgotten):
            return known
        rest = known.take(np.flatnonzero(~mask_of(len(known.state), forgotten)))
        return replace(rest, forgotten=known.forgotten + 1)

    def _taken_back(self, name: str, known: QueueState, keys: pa.BinaryArray) -> QueueState:
        """Return the groups, with expired groups of these keys that left a tombstone."""
        if self._cold is None or not self._index.cold or not len(keys):
            return known
        strange = keys.filter(pc.invert(pc.is_in(keys, value_set=known.keys))) if len(known.keys) else keys
        back = self._cold.take_back(name, known.incarnation, strange)
        return known if back is None else joined([known, back])

    def _put_away(self, now: int) -> None:
        """Move the expired groups that leave a tombstone to the cold groups, when there are enough of them."""
        if self._cold is None:
            return
        away: dict[str, QueueState] = {}
        for queue, known in self._present():
            if queue.group.expire_after is None or queue.group.expire_to != "tombstone":
                continue
            rows = expired(queue.policy, known.state, now, micros(queue.group.expire_after))
            if len(rows) < max(LEAST_PUT_AWAY, (len(known.state) - len(rows)) // 8):
                continue
            gone = known.take(rows)
            away[queue.name] = gone.with_state(tombstones(queue.policy, gone.state))
            self._index.queues[queue.name] = known.take(np.flatnonzero(~mask_of(len(known.state), rows)))
        self._cold.add(away)

    def _queues_of_rows(self) -> pa.Array | None:
        """The number of each row's queue, null if it names none; None if there is only one queue."""
        if self._plan.destination is None or not self._arrived.num_rows:
            return None
        names = pa.array([queue.name for queue in self._plan.queues], pa.string())
        return pc.index_in(self._arrived.column(self._plan.destination), value_set=names)

    def _why_refused(self) -> pa.ChunkedArray | None:
        """The reasons why rows are no messages, null for messages; None: all rows are messages."""
        refusals = None if self._plan.invalid is None else self._of_messages(self._plan.invalid)
        if self._found is not None and self._found.null_count:
            named = pc.binary_join_element_wise("'", self._arrived.column(self._plan.destination), "'", "")
            stray = pc.binary_join_element_wise("no queue is named ", pc.fill_null(named, "null"), "")
            stray = pc.if_else(pc.is_null(self._found), stray, pa.scalar(None, pa.string()))
            refusals = stray if refusals is None else pc.coalesce(refusals, stray)
        return None if refusals is None or refusals.null_count == len(refusals) else refusals

    def _rows_by_queue(self) -> dict[int, Ints]:
        if self._found is None:
            return {0: np.arange(self._arrived.num_rows)}
        number = pc.fill_null(self._found, 0).to_numpy().astype(np.int64)
        order = order_by_group(number)
        present, starts = np.unique(number[order], return_index=True)
        return dict(zip(present.tolist(), np.split(order, starts[1:]), strict=True))

    def _numbers(self, column: str) -> Ints:
        """One of seriatim's columns; a null, or a column that isn't needed, is 0."""
        values = self._column(column)
        if values is None:
            return empty_ints(self._arrived.num_rows)
        return (pc.fill_null(values, 0) if values.null_count else values).to_numpy()

    def _voids(self) -> Bools | None:
        """Return which of the arrived rows are voids; None: none is."""
        values = self._column(VOID)
        if values is None or not pc.any(values).as_py():
            return None
        voids: Bools = pc.fill_null(values, False).to_numpy()
        return voids

    def _of_messages(self, name: str) -> pa.ChunkedArray | None:
        """A column of the user's, for each queue to which a message goes."""
        if name not in self._messages.column_names:
            return None
        column = self._messages.column(name)
        return column if self._places is None else column.take(pa.array(self._places))

    def _whose(self, rows: Ints) -> Ints:
        """The rows of messages, for the rows of their queues."""
        return rows if self._places is None else self._places[rows]

    def _column(self, name: str) -> pa.ChunkedArray | None:
        return self._arrived.column(name) if name in self._arrived.column_names else None

    def _problems(self, rows: Ints, queue: Queue) -> tuple[Ints, Ints]:
        """Set aside the rows that can't be messages of the queue; return the remaining rows and the reasons of the others."""
        if not len(rows):
            return empty_ints(), rows
        if self._refused is not None:
            bad = pc.is_valid(self._refused).to_numpy()[rows]
            reasons = self._refused.take(pa.array(rows[bad])).combine_chunks()
            self._emit(queue, rows[bad], Disposition.INVALID, reasons)
            rows = rows[~bad]
        reason = empty_ints(len(rows))
        if isinstance(queue.policy, Unordered):
            return reason, rows
        if not isinstance(queue.policy, Fifo):
            missing = self._arrived.column(SEQUENCE)
            if missing.null_count:
                problem = self._numbers(PROBLEM)[rows]
                null = pc.is_null(missing).to_numpy()[rows]
                reason = np.where(null, np.where(problem > 0, problem, Reason.SEQUENCE_MISSING), reason)
            if isinstance(queue.policy, UnitOfWork):  # a size may have a problem where the sequence has none
                reason = np.maximum(reason, self._numbers(PROBLEM)[rows])
        if self._plan.region is not None:
            reason = np.where(reason == Reason.NONE, self._strange(rows), reason)
        if self._plan.clock == "event" and self._arrived.column(TIME).null_count:
            null = pc.is_null(self._arrived.column(TIME)).to_numpy()[rows]
            reason = np.where(null, Reason.TIME_MISSING, reason)
        return reason, rows

    def _strange(self, rows: Ints) -> Ints:
        """The reasons why rows have no region or no id; a void needs neither."""
        reason = np.where(regions_of(self._numbers(SIZE)[rows]) > 0, Reason.NONE, Reason.REGION_UNKNOWN)
        ids = self._column(FINGERPRINT)
        if ids is not None and ids.null_count:
            lacks = pc.is_null(ids).to_numpy()[rows]
            reason = np.where((reason == Reason.NONE) & lacks, Reason.ID_MISSING, reason)
        void = self._voids()
        return reason if void is None else np.where(void[rows], Reason.NONE, reason)

    def _groups_of(self, queue: Queue, rows: Ints) -> tuple[Ints, Ints, pa.BinaryArray]:
        """The valid rows, the number of each row's key, and the keys."""
        none = pa.array([], pa.binary())
        reason, rows = self._problems(rows, queue)
        if not len(rows):
            return rows, empty_ints(), none
        column = self._arrived.column(KEY)
        whole = len(rows) == self._arrived.num_rows
        keys = (column if whole else column.take(pa.array(rows))).combine_chunks().dictionary_encode("encode")
        words, codes = _in_order(keys)
        faults = _key_faults(words)
        if faults.any():
            reason = np.where(faults[codes] > 0, faults[codes], reason)
        bad = reason > 0
        if bad.any():
            self._emit(queue, rows[bad], Disposition.INVALID, _words(reason[bad]))
            rows, codes = rows[~bad], codes[~bad]
            used, codes = np.unique(codes, return_inverse=True)
            words = words.take(pa.array(used))
        return rows, codes, words

    def _arrivals(self, policy: Policy, rows: Ints, group: Ints, now: int) -> tuple[Ints, Arrivals]:
        """The rows as arrivals: sorted by group, in order of arrival, with refs in that order."""
        if not len(rows):
            return group, Arrivals.empty()
        sequence = self._numbers(SEQUENCE)[rows]
        event = self._plan.clock == "event"
        time = self._numbers(TIME)[rows] if event else np.full(len(rows), now, np.int64)
        order = self._order(rows, group, sequence, time if event else None)
        rows, group = rows[order], group[order]
        refs = self._refs + np.arange(len(rows))
        self._refs += len(rows)
        self._rows.append(rows)
        sizes = self._column(SIZE)
        size = np.full(len(rows), NOT_SAID) if sizes is None else pc.fill_null(sizes, NOT_SAID).to_numpy()[rows]
        sequence = refs if isinstance(policy, Fifo) else sequence[order]
        weight = np.ones(len(rows), np.int64)
        void = self._voids()
        if void is not None:
            weight[void[rows]] = 0
        # Only messages of these policies are compared, and a void has no content.
        compares = isinstance(policy, Standard | FifoMerged) or (isinstance(policy, UnitOfWork) and not policy.once)
        compared = compares and self._column(FINGERPRINT) is not None
        fingerprint = self._numbers(FINGERPRINT)[rows] * weight if compared else empty_ints(len(rows))
        spans, epochs = getattr(policy, "spans", False), getattr(policy, "epochs", False)
        through = self._numbers(THROUGH)[rows] if spans else None
        epoch = self._numbers(EPOCH)[rows] if epochs else None
        return group, Arrivals(group, sequence, refs, time[order], size, weight, fingerprint, through, epoch)

    def _ranked(
        self, policy: Policy, known: QueueState, arrivals: Arrivals
    ) -> tuple[QueueState, Arrivals, list[bytes]]:
        """Where positions order messages, the groups and the arrivals in ranks of one list of positions."""
        if not by_position(policy):
            return known, arrivals, []
        came: list[bytes] = []
        if len(arrivals):
            came = self._arrived.column(POSITION).take(pa.array(self._rows[-1])).to_pylist()
        every, (state,), found = ranked([(known.state, known.positions)], came)
        return known.with_state(state), arrivals.with_columns(sequence=found), every

    def _order(self, rows: Ints, group: Ints, sequence: Ints, time: Ints | None) -> Ints:
        """The order of arrival within each group; see *Arrival* in the documentation of `resequence`."""
        if self._plan.arrivals:
            columns = [_at(self._messages, path) for path in self._plan.arrivals]
            names = [str(place) for place in range(len(columns))]
            wanted = pa.table(columns, names).take(pa.array(self._whose(rows)))
            order = pc.sort_indices(wanted, [(name, "ascending") for name in names]).to_numpy().astype(np.int64)
            if time is not None:
                order = order[np.argsort(time[order], kind="stable")]
            return order[order_by_group(group[order])]
        tie = self._numbers(TIE)[rows]
        if time is not None:
            return np.lexsort((tie, sequence, time, group))
        order = order_by(group, sequence)
        same = (group[order[1:]] == group[order[:-1]]) & (sequence[order[1:]] == sequence[order[:-1]])
        if same.any():
            tied = np.zeros(len(order), np.bool_)
            tied[1:] |= same
            tied[:-1] |= same
            places = np.flatnonzero(tied)
            ordered = order[places]
            order[places] = ordered[np.lexsort((tie[ordered], sequence[ordered], group[ordered]))]
        return order

    def _judge(self, policy: Policy, state: State, arrivals: Arrivals, now: int, *, finish: bool) -> kernel.Outcome:
        due = np.flatnonzero(kernel.due(policy, state) <= now)
        concerned = np.union1d(arrivals.group, due)
        judge = kernel.replay if self._plan.clock == "event" else kernel.call
        if not len(concerned):
            outcome = kernel.Outcome.unchanged(state)
        elif len(concerned) == len(state):
            outcome = judge(policy, state, arrivals, now)
        else:
            arrivals = arrivals.with_columns(group=np.searchsorted(concerned, arrivals.group))
            outcome = judge(policy, state.select(concerned), arrivals, now).among(state, concerned)
        return outcome.then(kernel.advance(policy, outcome.state, FOREVER)) if finish else outcome

    def _abandon(self) -> None:
        """Set aside the messages that are held for removed destinations."""
        for name, known in self._index.departed.items():
            refs = known.state.held.ref[known.state.held.weight > 0]
            if len(refs):
                self._counts[Disposition.DEAD] += len(refs)
                self._out.append(_Decision.alike(refs, Disposition.DEAD, pa.repeat(_ABANDONED, len(refs)), name))
        self._index.departed.clear()

    # ---- what was decided

    def _note_skipped(self, queue: Queue, keys: pa.BinaryArray, events: Events) -> None:
        """Count the holes that were skipped, and remember the first of them, by group and number."""
        skipped = events.take(events.kind == EventKind.HOLE_SKIPPED)
        if not len(skipped) or not isinstance(queue.policy, Standard):
            return
        skipped = skipped.take(order_by(skipped.group, skipped.first))
        self._skipped_holes += len(skipped)
        self._skipped_numbers += int(((skipped.last - skipped.first) // queue.policy.increment + 1).sum())
        earliest = skipped.take(np.arange(min(len(skipped), MOST_SKIPPED - len(self._skipped))))
        for group, first, last in zip(
            earliest.group.tolist(), earliest.first.tolist(), earliest.last.tolist(), strict=True
        ):
            self._skipped.append((queue.name, keys[group].as_py().decode(), first, last))

    def _obeyed(self, queue: Queue, command: Command, decided: Decided, events: Events) -> None:
        known = self._index.queues[queue.name]
        self._note_skipped(queue, known.keys, events)
        because = {"operation_id": command.id, "action": command.verb, "actor": command.actor, "reason": command.reason}
        self._events += told_events(queue, known, events, because)
        self._decide(queue, known, decided, _bare(queue.policy, known.state.held), events)

    def _decide(self, queue: Queue, known: QueueState, decided: Decided, bare: Ints, events: Events) -> None:
        """Note decisions; `bare`: the messages without a number. `events`: they say what partial sets lack."""
        self._counts += np.bincount(decided.disposition, minlength=len(Disposition))
        if self._plan.output == "released":
            decided = decided.take(decided.disposition == Disposition.RELEASED)
        if len(decided):
            decided = decided.take(order_by(decided.group, decided.ordinal))
            incarnations = known.incarnations()[decided.group] if self._plan.forgets else None
            self._out.append(_Decision.of(decided, queue, incarnations, bare, events))

    def _emit(self, queue: Queue, rows: Ints, disposition: Disposition, reasons: pa.Array) -> None:
        """Decide rows that never become arrivals."""
        self._counts[disposition] += len(rows)
        if len(rows) and (self._plan.output == "all" or disposition is Disposition.RELEASED):
            refs = self._refs + np.arange(len(rows))
            self._refs += len(rows)
            self._rows.append(rows)
            where: str | pa.Array = queue.name
            if self._found is not None and self._found.null_count:
                # A row that names no queue belongs to the first queue.
                where = self._arrived.column(self._plan.destination).take(pa.array(rows)).combine_chunks()
            self._out.append(_Decision.alike(refs, disposition, reasons, where))

    def _show_held(self) -> None:
        for queue, known in self._present() if self._plan.output == "all" else ():
            state = known.state
            messages = state.held.weight > 0
            if not messages.any():
                continue
            reasons = _words(kernel.why_held(queue.policy, state)[messages])
            refs = state.held.ref[messages]
            shown = _Decision.alike(refs, Disposition.HELD, reasons, queue.name)
            numbers = _unwrapped(queue.policy, refs, state.held.sequence[messages], _bare(queue.policy, state.held))
            self._out.append(replace(shown, numbers={"unwrapped": numbers}))

    def _keep(self) -> None:
        """Store the bodies of held messages, and update refs of bodies that have moved."""
        chunk = self._chunk
        held = [queue.state.held.ref for queue in self._index.queues.values()]
        refs = np.concatenate(held) if held else empty_ints()
        # All decisions are read before anything moves.
        for decision in self._out:
            for old in np.unique(chunk_of(decision.refs)).tolist():
                if old != chunk:
                    self._bodies.table(old)
        moved: list[tuple[Ints, Ints]] = []
        self._bodies.keep(chunk, self._arrived_bodies, refs, lambda old, new: moved.append((old, new)))
        if moved:
            old, new = (np.concatenate(each) for each in zip(*moved, strict=True))
            order = np.argsort(old)
            for queue in self._index.queues.values():
                queue.state = _moved(queue.state, old[order], new[order])
        self._index.chunk = chunk + 1

    def _arrived_bodies(self, rows: Ints) -> tuple[pa.Table, Ints]:
        """The bodies of messages that arrived in this call, by their rows in its chunk, and for each of these its body."""
        wanted, places = self._whose(np.concatenate(self._rows)[rows]), np.arange(len(rows))
        if self._places is not None:
            alone, rows_of_bodies = np.unique(wanted, return_inverse=True)
            if len(alone) < len(wanted):
                wanted, places = alone, rows_of_bodies
        return self._messages.select(self._plan.carried).take(pa.array(wanted)), places

    def _tables(self) -> Iterator[pa.Table]:
        """The decided messages with the decisions, in portions."""
        where = self._whose(np.concatenate(self._rows)) if self._rows else empty_ints()
        for decision in self._out:
            chunks = np.unique(chunk_of(decision.refs)).tolist()
            sources, offsets, at = [], {}, 0
            for chunk in chunks:
                own = chunk == self._chunk
                table = self._messages.select(self._plan.carried) if own else self._bodies.table(chunk)
                sources.append(table)
                offsets[chunk] = at
                at += table.num_rows
            rows = row_of(decision.refs)
            if len(chunks) == 1 and chunks[0] == self._chunk:
                rows = where[rows]
            else:
                rows, of = rows.copy(), chunk_of(decision.refs)
                for chunk, offset in offsets.items():
                    is_here = of == chunk
                    own = chunk == self._chunk
                    rows[is_here] = offset + (
                        where[rows[is_here]] if own else self._bodies.places(chunk, rows[is_here])
                    )
            start = 0
            for part in slices(pa.concat_tables(sources), rows):
                for at in range(0, part.num_rows, step := decision.most_rows):
                    yield decision.added(part.slice(at, step), start + at, self._plan)
                start += part.num_rows


@dataclass(frozen=True, slots=True)
class _Decision:
    """Decided messages by ref, and the columns that are added to them; the queue is one for all, or by message."""

    refs: Ints
    ordinal: pa.Array
    late: pa.Array
    disposition: pa.Array
    reason: pa.Array
    queue: str | pa.Array
    incarnation: pa.Array | None = None
    #: What is said of their numbers, see `Plan`.
    numbers: Mapping[str, pa.Array] = field(default_factory=dict)
    #: What partial sets lack; the first of them is that of all other messages, which lacks nothing.
    lacks: pa.ListArray | None = None

    @classmethod
    def of(cls, decided: Decided, queue: Queue, incarnations: Ints | None, bare: Ints, events: Events) -> _Decision:
        sets, lacks = _lacking(decided, events)
        bare = np.concatenate([bare, decided.ref[decided.disposition == Disposition.INVALID]])
        left = decided.disposition == Disposition.RELEASED
        return cls(
            decided.ref,
            pa.array(decided.ordinal, pa.int64(), mask=~left),
            pa.array(decided.late),
            _dispositions().take(pa.array(decided.disposition)),
            _words(decided.reason),
            queue.name,
            None if incarnations is None else pa.array(incarnations, pa.int64(), mask=~left),
            {
                "overlaps": pa.array(decided.reason == Reason.OVERLAPS),
                "unwrapped": _unwrapped(queue.policy, decided.ref, decided.sequence, bare),
                "partial": pa.array(decided.reason == Reason.PARTIAL),
                "missing": pa.array(sets),
            },
            lacks,
        )

    @classmethod
    def alike(cls, refs: Ints, disposition: Disposition, reasons: pa.Array, queue: str | pa.Array) -> _Decision:
        n = len(refs)
        return cls(
            refs,
            pa.nulls(n, pa.int64()),
            pa.array(np.zeros(n, np.bool_)),
            _dispositions().take(pa.array(np.full(n, int(disposition)))),
            reasons,
            queue,
        )

    def added(self, messages: pa.Table, start: int, plan: Plan) -> pa.Table:
        """Messages with their queue, and seriatim's columns behind the user's columns."""
        n, output = messages.num_rows, plan.output
        if plan.destination is not None:
            named = pa.repeat(self.queue, n) if isinstance(self.queue, str) else self.queue.slice(start, n)
            messages = messages.add_column(plan.user.index(plan.destination), plan.destination, named)
        table = messages.append_column("ordinal", self.ordinal.slice(start, n))
        table = table.append_column("late", self.late.slice(start, n))
        for what, column in plan.numbers.items():
            table = table.append_column(column, self._said(what, start, n))
        if plan.forgets:
            own = pa.nulls(len(self.refs), pa.int64()) if self.incarnation is None else self.incarnation
            table = table.append_column("incarnation", own.slice(start, n))
        if output == "all":
            table = table.append_column("disposition", self.disposition.slice(start, n))
            table = table.append_column("reason", self.reason.slice(start, n))
        return table

    @property
    def most_rows(self) -> int:
        """How many rows a table has at most: each message of a set has all that the set lacks."""
        longest = 0 if self.lacks is None else pc.max(pc.list_value_length(self.lacks)).as_py()
        return max(1, _MOST_NUMBERS // max(1, longest))

    def _said(self, what: str, start: int, n: int) -> pa.Array:
        """What some messages have in one of the columns about numbers."""
        own = self.numbers.get(what)
        if what == "missing":
            lacks = _no_lacks() if own is None or self.lacks is None else self.lacks
            return lacks.take(pa.array(np.zeros(n, np.int64)) if own is None else own.slice(start, n))
        if own is not None:
            return own.slice(start, n)
        return pa.nulls(n, pa.int64()) if what == "unwrapped" else pa.array(np.zeros(n, np.bool_))


def _lacking(decided: Decided, events: Events) -> tuple[Ints, pa.ListArray]:
    """What partial sets lack: by message the place of its set's, and these."""
    sets = empty_ints(len(decided))
    rows = np.flatnonzero(decided.reason == Reason.PARTIAL)
    if not len(rows):
        return sets, _no_lacks()
    lacks = {(group, at): numbers_in(runs) for group, at, runs in runs_of(events)}
    places = {one: place for place, one in enumerate(lacks, 1)}
    of = zip(decided.group[rows].tolist(), decided.cause[rows].tolist(), strict=True)
    sets[rows] = [places.get(one, 0) for one in of]
    return sets, pa.array([(), *lacks.values()], pa.list_(pa.int64()))


def _bare(policy: Policy, held: Held, arrivals: Arrivals | None = None) -> Ints:
    """The refs of messages without a number, where numbers turn over."""
    if getattr(policy, "modulus", None) is None:
        return empty_ints()
    arrivals = Arrivals.empty() if arrivals is None else arrivals
    refs, bits = np.concatenate([held.ref, arrivals.ref]), np.concatenate([held.bits, arrivals.bits])
    return refs[bits & (RESTARTS | UNNUMBERED) != 0]


def _unwrapped(policy: Policy, refs: Ints, numbers: Ints, bare: Ints) -> pa.Array:
    """Numbers through all turns; null where numbers don't turn over, and for messages without one."""
    if getattr(policy, "modulus", None) is None:
        return pa.nulls(len(refs), pa.int64())
    return pa.array(numbers, pa.int64(), mask=np.isin(refs, bare))


@cache
def _no_lacks() -> pa.ListArray:
    return pa.array([()], pa.list_(pa.int64()))


# Made on first use: PyArrow imports pandas for an array of Python's values, and the start of a query needs none.
@cache
def _dispositions() -> pa.StringArray:
    return pa.array([disposition.word for disposition in Disposition])


@cache
def _reasons() -> pa.StringArray:
    texts = {int(reason): text or None for reason, text in REASONS.items()}
    return pa.array([texts.get(code) for code in range(max(Reason) + 1)], pa.string())


def _open_holes(state: State) -> int:
    """Return how many groups have an open hole; a group that isn't opened has another clock."""
    return int(((state.groups.since != NEVER) & ~state.groups.has(Flag.UNOPENED)).sum())


def _suspected(queue: Queue, known: QueueState) -> list[tuple[str, str, int]]:
    """The groups with a suspected restart of their producer: queue, group, the number of the last message that shows it."""
    groups = known.state.groups
    if not isinstance(queue.policy, Standard) or not groups.suspects.any():
        return []
    rows = np.flatnonzero(suspects_restart(queue.policy, groups))
    return [(queue.name, known.keys[row].as_py().decode(), int(groups.suspect[row])) for row in rows.tolist()]


def _longest(waiting: Mapping[str, tuple[pa.BinaryArray, HeldGroups]]) -> list[list[object]]:
    """The groups that have waited longest, of all groups that hold messages; by queue, with the keys of all groups."""
    long_waits: list[list[object]] = []
    for name, (keys, all_groups) in waiting.items():
        since = np.where(all_groups.since == NEVER, FOREVER, all_groups.since)
        longest = np.argpartition(since, LONGEST - 1)[:LONGEST] if len(since) > LONGEST else np.arange(len(since))
        groups = all_groups.take(longest)
        for group, held, first, last, begun, reason in zip(*groups.lists(), strict=True):
            run = [None if number == NOTHING else number for number in (first, last)]
            key, why = keys[group].as_py().decode(), REASONS[Reason(reason)]
            long_waits.append([name, key, held, *run, None if begun == NEVER else begun, why])
    return sorted(long_waits, key=waited_since)[:LONGEST]


def waited_since(group: Sequence[Any]) -> tuple[int, str, str]:
    """The order of groups in a report: the longest waiting first, then groups without a clock."""
    return (FOREVER if group[5] is None else group[5], group[0], group[1])


def _at(rows: pa.Table, path: tuple[str, ...]) -> pa.ChunkedArray:
    column = rows.column(path[0])
    return pc.struct_field(column, list(path[1:])) if len(path) > 1 else column


def _words(reason: Ints) -> pa.Array:
    return _reasons().take(pa.array(reason))


def _in_order(keys: pa.DictionaryArray) -> tuple[pa.BinaryArray, Ints]:
    """The distinct keys in order, and for each message the number of its own. A shuffle brings messages in any order. A repeated call, also
    on another machine, must produce the same state to the byte: a snapshot of one attempt may be continued with the changes of another.
    """
    order = pc.sort_indices(keys.dictionary).to_numpy()
    number = np.empty(len(order), np.int64)
    number[order] = np.arange(len(order))
    return keys.dictionary.take(pa.array(order)), number[keys.indices.to_numpy()]


def _key_faults(words: pa.BinaryArray) -> Ints:
    """The problem with each key. Keys are checked one by one only if any of them has a problem."""
    sizes = pc.binary_length(words)
    bad = words.null_count or (len(words) and (pc.min(sizes).as_py() == 0 or pc.max(sizes).as_py() > 1024))
    if not bad:
        try:
            text = words.cast(pa.string())
            bad = pc.any(pc.match_substring(text, "\0")).as_py()
        except pa.ArrowInvalid:
            bad = True
    if not bad:
        return empty_ints(len(words))
    return np.array([int(key_problem(word)) for word in words.to_pylist()], np.int64)


def _enrol(policy: Policy, known: QueueState, keys: pa.BinaryArray, group: Ints) -> tuple[QueueState, Ints]:
    """Find known keys and add new keys; return the rows of the groups in place of the numbers of keys."""
    if not len(keys):
        return known, group
    rows = _places(keys, known.keys)
    new = rows < 0
    count = int(new.sum())
    rows[new] = len(known.keys) + np.arange(count)
    if not count:
        return known, rows[group]
    return known.enrolled(keys.filter(pa.array(new)), kernel.new_state(policy, count)), rows[group]


def _places(keys: pa.BinaryArray, known: pa.BinaryArray) -> Ints:
    """The place of each key among the known ones, -1: it is new. All keys differ."""
    if len(known) < _MANY * len(keys):
        return pc.fill_null(pc.index_in(keys, value_set=known), -1).to_numpy().astype(np.int64)
    # Arrow makes a table of the second array, which costs more than to look all of the known keys up in a small one.
    rows = np.full(len(keys), -1, np.int64)
    found = pc.index_in(known, value_set=keys)
    rows[found.drop_null().to_numpy()] = np.flatnonzero(found.is_valid().to_numpy(zero_copy_only=False))
    return rows


def _moved(state: State, old: Ints, new: Ints) -> State:
    refs = state.held.ref
    at = np.minimum(np.searchsorted(old, refs), len(old) - 1)
    moved = np.where(old[at] == refs, new[at], refs)
    return state.having(held=state.held.with_columns(ref=moved))
