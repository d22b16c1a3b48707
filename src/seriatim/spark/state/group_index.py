"""The index of a bucket: its state as one value.

Layout: an Arrow IPC stream of one record batch, compressed with LZ4, with a row for each queue that has groups in the
bucket. Every column of the kernel's state is a list in that row; a column whose values are all equal is a list of one, and
one that has its `_DEFAULTS` in all queues is left out. So a group that is idle costs its key and its next number, about 20
bytes, and a rule that no queue uses costs nothing.

The header (schema metadata) has the layout of this frame, the fingerprint of the operator that wrote it, the latest
processing time, the registered timer, the next chunk of held bodies, and the layout of each *part* (`PARTS`). A
reader refuses a part with another layout.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from seriatim.errors import CheckpointMismatch
from seriatim.kernel.groups.positions import ranked, ranks
from seriatim.kernel.groups.state import NOTHING, Groups, Held, Lives, Ranges, Remembered, Sights, State
from seriatim.kernel.values.columns import Ints
from seriatim.kernel.values.time import NEVER
from seriatim.spark.state.destination_history import DestinationHistory
from seriatim.spark.state.manifest import check_header, check_queues

#: The layout of the frame: its header, and the arrangement of the parts. Raise it only if that changes.
LAYOUT = 2
#: The layout of each part. Raise a part's number when it changes. A further column with a default doesn't change it.
PARTS = {
    "queues": 1, "groups": 2, "held": 3, "skipped": 1, "remembered": 1, "births": 1, "cold": 1, "sights": 1, "lives": 1, "ended": 1,
    "positions": 1,
}  # fmt: skip

_COLUMNS: dict[str, list[str]] = {
    "groups": list(Groups.__match_args__),
    "held": [name for name in Held.__match_args__ if name not in ("through", "epoch")],
    "skipped": list(Ranges.__match_args__),
    "remembered": ["sequence", "fingerprint"],
    "sights": ["first", "last", "regions", "time"],
    "lives": list(Lives.__match_args__),
    "ended": list(Ranges.__match_args__),
}
#: The columns that are empty where numbers are plain.
_NOT_PLAIN = {"held.through", "held.epoch", "remembered.through"}
_NOT_PLAIN |= {f"{table}.{column}" for table in ("lives", "ended") for column in _COLUMNS[table]}
#: The value of each row in a column that is left out.
_DEFAULTS = {
    "queues.incarnation": 1,
    "queues.forgotten": 0,
    "births.number": 0,
    "groups.suspects": 0,
    "groups.suspect": NOTHING,
    "held.time": NEVER,
    "held.weight": 1,
    "held.fingerprint": 0,
    "held.bits": 0,
    "remembered.count": 0,
    "remembered.sequence": 0,
    "remembered.fingerprint": 0,
    "sights.count": 0,
    "sights.first": 0,
    "sights.last": 0,
    "sights.regions": 0,
    "sights.time": 0,
}
_NONE = np.zeros(0, np.int64)
# A thread for each buffer costs more than it saves.
_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
_READ = pa.ipc.IpcReadOptions(use_threads=False)


@dataclass(slots=True)
class QueueState:
    """The groups of one queue in a bucket: their keys, in the order of the rows of `state`. `incarnation`: counts how often the destination
    has been added under its name. `forgotten`: how often groups of it have been forgotten here: a group that is new begins in that
    incarnation. `births`: by group, the incarnation in which it has begun; None: all in 0.
    """

    keys: pa.BinaryArray
    state: State
    incarnation: int = 1
    forgotten: int = 0
    births: Ints | None = None
    #: The positions of which `state` has ranks, where positions order messages.
    positions: tuple[bytes, ...] = ()

    def born(self) -> Ints:
        """By group, the incarnation in which it has begun."""
        return np.zeros(len(self.state), np.int64) if self.births is None else self.births

    def incarnations(self) -> Ints:
        """By group its incarnation, from 0: a group begins anew with its destination, and after it was forgotten."""
        return self.born() + (self.incarnation - 1)

    def take(self, rows: Ints) -> QueueState:
        births = None if self.births is None else self.births[rows]
        found = QueueState(
            self.keys.take(pa.array(rows)), self.state.select(rows), self.incarnation, self.forgotten, births
        )
        return found.with_positions(self.positions, found.state) if self.positions else found

    def enrolled(self, keys: pa.BinaryArray, state: State) -> QueueState:
        """Return the same queue with further groups after these, which begin now."""
        more = None
        if self.forgotten or self.births is not None:
            more = np.concatenate([self.born(), np.full(len(keys), self.forgotten)])
        every = pa.concat_arrays([self.keys, keys])
        return QueueState(
            every, State.join([self.state, state]), self.incarnation, self.forgotten, more, self.positions
        )

    def with_state(self, state: State) -> QueueState:
        return replace(self, state=state)

    def with_positions(self, every: Sequence[bytes], state: State) -> QueueState:
        """The same groups in another state, which has ranks of these positions; those that it doesn't need are left out."""
        state, needed = ranks(state)
        return replace(self, state=state, positions=tuple(every[rank] for rank in needed.tolist()))


def joined(parts: Sequence[QueueState]) -> QueueState:
    """Return the groups of all parts, which have different keys; the values of the queue are those of the first part."""
    if len(parts) == 1:
        return parts[0]
    first, keys = parts[0], pa.concat_arrays([part.keys for part in parts])
    births = None if all(part.births is None for part in parts) else np.concatenate([part.born() for part in parts])
    every, states = first.positions, [part.state for part in parts]
    if any(part.positions for part in parts):
        found, states, _ = ranked((part.state, part.positions) for part in parts)
        every = tuple(found)
    return QueueState(keys, State.join(states), first.incarnation, first.forgotten, births, every)


@dataclass(frozen=True, slots=True)
class Run:
    """A run of cold groups; see ``cold_groups.py``. `id`: its number. `groups`: how many it has. `live`: by queue, how many of them aren't
    in the index again. `bounds`: the lowest hash of each page.
    """

    id: int
    groups: int
    live: Mapping[str, int]
    bounds: tuple[int, ...]

    def as_json(self) -> list[object]:
        return [self.id, self.groups, dict(self.live), list(self.bounds)]

    @classmethod
    def of(cls, fields: Sequence[Any]) -> Run:
        number, groups, live, bounds = fields
        return cls(int(number), int(groups), dict(live), tuple(bounds))


@dataclass(slots=True)
class Index:
    """The state of a bucket, without the held bodies. `now` is the latest processing time (microseconds), `timer` the registered one
    (milliseconds, None: none), `chunk` the number of the next chunk of bodies, `chunks` how many rows each living chunk has. `steps`: by
    queue, from one number to the next where that isn't 1, for a reader of the index without the declaration. `obeyed`: the ids of the
    last commands that it has obeyed. `cold`: the runs of groups that have expired, from the oldest to the newest, and `next_run`, the
    number of the next one. `departed`: the results of queues that don't go on; it isn't stored again.
    """

    fingerprint: str
    queues: dict[str, QueueState] = field(default_factory=dict)
    now: int = NEVER
    timer: int | None = None
    chunk: int = 0
    chunks: dict[int, int] = field(default_factory=dict)
    steps: Mapping[str, int] = field(default_factory=dict)
    obeyed: tuple[str, ...] = ()
    cold: list[Run] = field(default_factory=list)
    next_run: int = 0
    departed: dict[str, QueueState] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        header = {
            "layout": LAYOUT,
            "parts": PARTS,
            "fingerprint": self.fingerprint,
            "now": self.now,
            "timer": self.timer,
            "chunk": self.chunk,
            "chunks": sorted(self.chunks.items()),
            **({"steps": dict(self.steps)} if self.steps else {}),
            **({"obeyed": self.obeyed} if self.obeyed else {}),
            **({"cold": [run.as_json() for run in self.cold], "next_run": self.next_run} if self.next_run else {}),
        }
        rows = [_row(queue) for queue in self.queues.values()]
        columns: list[pa.Array] = []
        names: list[str] = []
        if rows:
            plain = {
                "queue": pa.array(list(self.queues), pa.string()),
                "groups": pa.array([len(queue.state) for queue in self.queues.values()], pa.int64()),
                "keys": pa.concat_arrays([_one_list(queue.keys) for queue in self.queues.values()]),
            }
            if any(queue.positions for queue in self.queues.values()):
                positions = [_one_list(pa.array(queue.positions, pa.binary())) for queue in self.queues.values()]
                plain["positions"] = pa.concat_arrays(positions)
            written = [name for name in rows[0] if not all(_says_nothing(name, row[name]) for row in rows)]
            names = [*plain, *written]
            columns = [*plain.values(), *(pa.concat_arrays([_list(row[name]) for row in rows]) for name in written)]
        schema = pa.schema(
            [pa.field(name, column.type) for name, column in zip(names, columns, strict=True)],
            {"seriatim": json.dumps(header)},
        )
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, schema, options=_OPTIONS) as writer:
            if rows:
                writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))
        return sink.getvalue().to_pybytes()

    @classmethod
    def from_bytes(cls, value: bytes, fingerprint: str | None, history: DestinationHistory | None = None) -> Index:
        reader = pa.ipc.open_stream(value, options=_READ)
        header = json.loads(reader.schema.metadata[b"seriatim"])
        check_header(header, LAYOUT, fingerprint if history is None else None)
        _check_parts(header["parts"])
        index = cls(
            header["fingerprint"],
            now=header["now"],
            timer=header["timer"],
            chunk=header["chunk"],
            chunks={int(chunk): int(rows) for chunk, rows in header["chunks"]},
            steps=header.get("steps", {}),
            obeyed=tuple(header.get("obeyed", ())),
            cold=[Run.of(run) for run in header.get("cold", ())],
            next_run=header.get("next_run", 0),
        )
        for batch in reader:
            for row in range(batch.num_rows):
                name = batch.column("queue")[row].as_py()
                index.queues[name] = _queue(batch.slice(row, 1))
        if fingerprint is not None and history is not None:
            index.take_out(json.loads(fingerprint)["queues"], history)
            check_queues(index.fingerprint, fingerprint, index.queues)
            index.fingerprint = fingerprint
        return index

    @staticmethod
    def fingerprint_of(value: bytes) -> str:
        return str(json.loads(pa.ipc.open_stream(value).schema.metadata[b"seriatim"])["fingerprint"])

    def take_out(self, declared: Collection[str], history: DestinationHistory) -> None:
        """Put removed queues into `departed`: queues that aren't declared any more, or a former incarnation."""
        for name, known in list(self.queues.items()):
            incarnation = history.incarnation(name)
            if known.incarnation > incarnation:
                problem = f"the state of destination {name!r} is of incarnation {known.incarnation}, the manifest knows {incarnation}"
                raise CheckpointMismatch(problem, remedy="restore the whole checkpoint from one backup")
            if name in declared and known.incarnation == incarnation:
                continue
            if len(known.state.held) and known.incarnation > history.abandoned.get(name, 0):
                raise CheckpointMismatch(
                    f"destination {name!r} holds messages, and is not in the declaration any more",
                    remedy="put it back and drain the pipeline, or run it with --abandon",
                )
            self.departed[name] = self.queues.pop(name)
            # The cold groups of these queues are removed, too.
            self.cold = [
                replace(run, live={queue: n for queue, n in run.live.items() if queue != name}) for run in self.cold
            ]


def _check_parts(parts: Mapping[str, int]) -> None:
    """Refuse parts that this version can't read."""
    for part, layout in parts.items():
        if part not in PARTS:
            problem = f"the state has a part {part!r}, which this version of seriatim doesn't know"
        elif layout != PARTS[part]:
            problem = f"part {part!r} of the state has layout {layout}, this version of seriatim reads {PARTS[part]}"
        else:
            continue
        raise CheckpointMismatch(problem, remedy="run the version that wrote it, or start with a new checkpoint")


def _row(queue: QueueState) -> dict[str, np.ndarray]:
    """The columns of a queue's state, by part."""
    state = queue.state
    row = {"queues.incarnation": np.array([queue.incarnation]), "queues.forgotten": np.array([queue.forgotten])}
    row["births.number"] = queue.born()
    groups, remembered = state.groups, state.remembered
    # Values that move together with `next` in an idle group are kept as their distance from it: mostly the same for all.
    near = groups.with_columns(last=groups.next - groups.last, ordinal=groups.next - groups.ordinal)
    tables: list[tuple[str, object]] = [("groups", near), ("held", state.held), ("skipped", state.skipped)]
    if len(remembered):
        row["remembered.count"] = np.bincount(remembered.group, minlength=len(state))
        behind = groups.next[remembered.group] - remembered.sequence
        tables.append(("remembered", remembered.with_columns(sequence=behind)))
    else:
        row["remembered.count"] = np.zeros(len(state), np.int64)
        row |= {f"remembered.{column}": _NONE for column in _COLUMNS["remembered"]}
    sights = state.sights
    row["sights.count"] = np.bincount(sights.group, minlength=len(state))
    # A run is mostly one number, and an id always is.
    tables.append(("sights", sights.with_columns(last=sights.last - sights.first)))
    tables += [("ended", state.ended)] if state.lives is None else [("ended", state.ended), ("lives", state.lives)]
    for table, part in tables:
        for column in _COLUMNS[table]:
            row[f"{table}.{column}"] = getattr(part, column)
    row["held.through"] = _NONE if state.held.through is None else state.held.through - state.held.sequence
    row["held.epoch"] = _NONE if state.held.epoch is None else state.held.epoch
    row["remembered.through"] = _NONE if remembered.through is None else remembered.through - remembered.sequence
    return dict.fromkeys(_NOT_PLAIN, _NONE) | row


def _list(values: np.ndarray) -> pa.ListArray:
    values = values.astype(np.int64, copy=False)
    if len(values) > 1 and values[0] == values[-1] and (values == values[0]).all():
        values = values[:1]
    return _one_list(pa.array(values))


def _one_list(values: pa.Array) -> pa.ListArray:
    return pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)


def _says_nothing(name: str, values: np.ndarray) -> bool:
    """Whether a column may be left out: it has its default in every row."""
    if name in _NOT_PLAIN:
        return not len(values)
    default = _DEFAULTS.get(name)
    return default is not None and (not len(values) or (values[0] == default and bool((values == default).all())))


def _queue(row: pa.RecordBatch) -> QueueState:
    count, named = row.column("groups")[0].as_py(), set(row.schema.names)

    def column(name: str, length: int) -> Ints:
        if name not in named:
            return np.full(length, _DEFAULTS[name], np.int64)
        return _widen(row.column(name).flatten().to_numpy(), length)

    def sparse(name: str, length: int) -> Ints | None:
        found = row.column(name).flatten().to_numpy() if name in named else _NONE
        return _widen(found, length) if len(found) and length else None

    def length_of(name: str) -> int:
        """How many ranges there are: those of one group have different numbers."""
        columns = [f"{name}.{column}" for column in _COLUMNS[name]]
        return max(row.column(each).value_lengths()[0].as_py() if each in named else 0 for each in columns)

    def table(name: str, length: int) -> dict[str, Ints]:
        return {part: column(f"{name}.{part}", length) for part in _COLUMNS[name]}

    groups = Groups(**table("groups", count))
    groups = groups.with_columns(last=groups.next - groups.last, ordinal=groups.next - groups.ordinal)
    held = table("held", row.column("held.ref").value_lengths()[0].as_py())
    late, waits = held.pop("late").astype(np.bool_), held.pop("waits").astype(np.bool_)
    skipped = table("skipped", length_of("skipped"))
    of_group = np.repeat(np.arange(count), column("remembered.count", count)) if "remembered.count" in named else _NONE
    remembered = table("remembered", len(of_group))
    remembered["sequence"] = groups.next[of_group] - remembered["sequence"]
    seen_of = np.repeat(np.arange(count), column("sights.count", count)) if "sights.count" in named else _NONE
    seen = table("sights", len(seen_of))
    sights = Sights(seen_of, **{**seen, "last": seen["first"] + seen["last"]})
    covers, epoch = (sparse(f"held.{name}", len(late)) for name in ("through", "epoch"))
    covers = None if covers is None else held["sequence"] + covers
    covered = sparse("remembered.through", len(of_group))
    left = Remembered(of_group, **remembered, through=None if covered is None else remembered["sequence"] + covered)
    lives: dict[str, Any] = {column: sparse(f"lives.{column}", count) for column in _COLUMNS["lives"]}
    ended: dict[str, Any] = {column: sparse(f"ended.{column}", length_of("ended")) for column in _COLUMNS["ended"]}
    state = State(
        groups, Held(late=late, waits=waits, **held, through=covers, epoch=epoch), Ranges(**skipped), left, sights,
        None if lives["life"] is None else Lives(**lives),
        Ranges(_NONE, _NONE, _NONE) if ended["group"] is None else Ranges(**ended),
    )  # fmt: skip
    incarnation, forgotten = (int(column(f"queues.{name}", 1)[0]) for name in ("incarnation", "forgotten"))
    births = column("births.number", count) if "births.number" in named else None
    positions = tuple(row.column("positions").flatten().to_pylist()) if "positions" in named else ()
    return QueueState(row.column("keys").flatten(), state, incarnation, forgotten, births, positions)


def _widen(values: np.ndarray, length: int) -> Ints:
    return values if len(values) == length else np.full(length, values[0], np.int64)
