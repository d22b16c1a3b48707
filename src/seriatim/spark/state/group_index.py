"""The index of a bucket: its state as one value.

Layout (version in the header): an Arrow IPC stream of one record batch, compressed with LZ4, with a row for each
queue that has groups in the bucket. Every column of the kernel's state is a list in that row; a column whose values
are all equal is a list of one. So a group that is idle costs its key and its next number, about 20 bytes.

The header (schema metadata) has the layout version, the fingerprint of the operator that wrote it, the latest
processing time, the registered timer, and the next chunk of held bodies.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from seriatim.kernel.columns import Ints
from seriatim.kernel.state import NOTHING, Groups, Held, Ranges, Remembered, State
from seriatim.kernel.time import NEVER
from seriatim.spark.state.manifest import check_header

__all__ = ["LAYOUT", "Index", "QueueState"]

#: Raise it whenever the layout changes.
LAYOUT = 1

#: The counts of suspected restarts are kept nowhere yet.
_GROUPS = [name for name in Groups.__slots__ if name not in ("suspects", "suspect")]
_HELD = ["group", "sequence", "ref", "late", "waits"]
_RANGES = ["group", "first", "last"]
_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


@dataclass(slots=True)
class QueueState:
    """The groups of one queue in a bucket: their keys, in the order of the rows of `state`."""

    keys: pa.BinaryArray
    state: State


@dataclass(slots=True)
class Index:
    """The state of a bucket, without the held bodies.

    `now` is the latest processing time (microseconds), `timer` the registered one (milliseconds, None: none),
    `chunk` the number of the next chunk of bodies, `chunks` how many rows each living chunk has. `steps`: by queue, from
    one number to the next where that isn't 1, for whoever reads the index without the declaration.
    """

    fingerprint: str
    queues: dict[str, QueueState] = field(default_factory=dict)
    now: int = NEVER
    timer: int | None = None
    chunk: int = 0
    chunks: dict[int, int] = field(default_factory=dict)
    steps: Mapping[str, int] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        """The value to store."""
        header = {
            "layout": LAYOUT,
            "fingerprint": self.fingerprint,
            "now": self.now,
            "timer": self.timer,
            "chunk": self.chunk,
            "chunks": sorted(self.chunks.items()),
            **({"steps": dict(self.steps)} if self.steps else {}),
        }
        rows = [_row(name, queue) for name, queue in self.queues.items()]
        names = ["queue", "groups", "keys", *(f"{t}.{c}" for t, cs in _TABLES.items() for c in cs)]
        columns = [pa.concat_arrays([row[name] for row in rows]) for name in names] if rows else []
        schema = pa.schema(
            [pa.field(name, column.type) for name, column in zip(names, columns, strict=False)],
            {"seriatim": json.dumps(header)},
        )
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, schema, options=_OPTIONS) as writer:
            if rows:
                writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))
        return sink.getvalue().to_pybytes()

    @classmethod
    def from_bytes(cls, value: bytes, fingerprint: str | None) -> Index:
        """Read the index from the stored value.

        Args:
            value: what `to_bytes` made.
            fingerprint: of the operator that goes on with it; None: it is only looked at.

        Raises:
            CheckpointMismatch: it has another layout, or another operator wrote it.
        """
        reader = pa.ipc.open_stream(value)
        header = json.loads(reader.schema.metadata[b"seriatim"])
        check_header(header, LAYOUT, fingerprint)
        index = cls(
            header["fingerprint"],
            now=header["now"],
            timer=header["timer"],
            chunk=header["chunk"],
            chunks={int(chunk): int(rows) for chunk, rows in header["chunks"]},
            steps=header.get("steps", {}),
        )
        for batch in reader:
            for row in range(batch.num_rows):
                name = batch.column("queue")[row].as_py()
                index.queues[name] = _queue(batch.slice(row, 1))
        return index


_TABLES = {"groups": _GROUPS, "held": _HELD, "skipped": _RANGES}


def _row(name: str, queue: QueueState) -> dict[str, pa.Array]:
    state = queue.state
    count = len(state)
    row = {
        "queue": pa.array([name], pa.string()),
        "groups": pa.array([count], pa.int64()),
        "keys": pa.ListArray.from_arrays(pa.array([0, count], pa.int32()), queue.keys),
    }
    groups = state.groups
    # What goes along with `next` in an idle group is kept as its distance from it: mostly the same for all.
    near = groups.with_columns(last=groups.next - groups.last, ordinal=groups.next - groups.ordinal)
    for table, part in (("groups", near), ("held", state.held), ("skipped", state.skipped)):
        for column in _TABLES[table]:
            row[f"{table}.{column}"] = _list(getattr(part, column))
    return row


def _list(values: np.ndarray) -> pa.ListArray:
    values = values.astype(np.int64, copy=False)
    if len(values) > 1 and values[0] == values[-1] and (values == values[0]).all():
        values = values[:1]
    return pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), pa.array(values))


def _queue(row: pa.RecordBatch) -> QueueState:
    count = row.column("groups")[0].as_py()

    def table(name: str, length: int | None = None) -> dict[str, np.ndarray]:
        columns = {c: row.column(f"{name}.{c}").flatten().to_numpy() for c in _TABLES[name]}
        full = max((len(values) for values in columns.values()), default=0) if length is None else length
        return {c: _widen(values, full) for c, values in columns.items()}

    none = {"suspects": np.zeros(count, np.int64), "suspect": np.full(count, NOTHING)}
    groups = Groups(**table("groups", count), **none)
    groups = groups.with_columns(last=groups.next - groups.last, ordinal=groups.next - groups.ordinal)
    held = table("held", row.column("held.ref").value_lengths()[0].as_py())
    held |= {"late": held["late"].astype(np.bool_), "waits": held["waits"].astype(np.bool_)}
    held["time"] = np.full(len(held["ref"]), NEVER)
    held["weight"] = np.ones(len(held["ref"]), np.int64)  # a row is one message: the layout has no voids
    held["fingerprint"] = np.zeros(len(held["ref"]), np.int64)  # nor fingerprints
    held["bits"] = np.zeros(len(held["ref"]), np.int64)  # no message of a pipeline opens or closes its group
    state = State(groups, Held(**held), Ranges(**table("skipped")), Remembered.empty())
    return QueueState(row.column("keys").flatten(), state)


def _widen(values: np.ndarray, length: int) -> Ints:
    return values if len(values) == length else np.full(length, values[0], np.int64)
