"""Write the files of a micro-batch, in the workers: each task of one Spark job writes for all ports.

A task gets rows in the order in which they leave, and keeps it. It reports its files and its counts to the driver,
which puts only reported files in place; so a task that ran twice delivers once.

A port that fails here fails alone: the task reports the reason, leaves that port's rows out and writes the rows of the
others. Ten thousand ports don't need ten thousand open files: rows wait in memory until there are many of them, a port
with few rows is opened once at the end, and if too many files are open the longest unused file is finished; later rows
of its port go into a next file (``part-00000_001.json``, which sorts behind ``part-00000.json``).
"""

from __future__ import annotations

import gzip
import json
import os
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext

from seriatim.spark.deliver.file_formats import Writer, open_writer
from seriatim.spark.deliver.set_aside_reasons import ReasonCounts
from seriatim.spark.resequence.decided_packets import telling
from seriatim.spark.state.packets import InArrow

#: The answer of a task: files (`port`, `text` the staged and `name` the final name), ports that failed (`text` says
#: why), counts, reasons to set aside (`text`), reports (`text`), and how many messages the task had.
ANSWER = "kind string, port int, name string, destination string, disposition string, text string, rows bigint"
_ANSWER = pa.schema(
    [
        ("kind", pa.string()),
        ("port", pa.int32()),
        ("name", pa.string()),
        ("destination", pa.string()),
        ("disposition", pa.string()),
        ("text", pa.string()),
        ("rows", pa.int64()),
    ]
)

_MOST_HELD_BYTES = 64 * 2**20
_MOST_OPEN = 64
_THREADS = 16


@dataclass(frozen=True, slots=True)
class Outlet:
    staging: str
    format: str
    options: Mapping[str, str] = field(default_factory=dict)
    #: (name in the file, column of the frame) of each column; none for JSON, which takes ``_line``. An empty column of the frame: a
    #: group or sequence that the port's queue doesn't have; ``=1``: a number that all rows have.
    columns: tuple[tuple[str, str], ...] = ()

    def pick(self, rows: pa.Table) -> pa.Table:
        if not self.columns:
            return rows.select(["_line"])
        return pa.table({name: _picked(rows, name, column) for name, column in self.columns})

    @property
    def suffix(self) -> str:
        return f".{self.format}{'.gz' if self.is_zipped else ''}"

    @property
    def is_zipped(self) -> bool:
        """Whether a whole file is compressed; Parquet compresses inside."""
        return self.format != "parquet" and self.options.get("compression") == "gzip"


def _picked(rows: pa.Table, name: str, column: str) -> pa.ChunkedArray | pa.Array:
    if not column:
        return pa.nulls(rows.num_rows, pa.int64() if name == "sequence" else pa.string())
    if column.startswith("="):
        return pa.array(np.full(rows.num_rows, int(column[1:]), np.int64))
    values = rows.column(column)
    if not pa.types.is_struct(values.type):
        return values
    # Only tickets are structs; the tickets of a location without `stamp` are nulls.
    ticket = values.combine_chunks()
    none = pc.is_null(pc.struct_field(ticket, "number"))
    return pa.StructArray.from_arrays(ticket.flatten(), fields=list(ticket.type), mask=none)


class _OpenFile:
    def __init__(self, outlet: Outlet, staged: str, schema: pa.Schema) -> None:
        self._path = Path(outlet.staging, staged)
        Path(outlet.staging).mkdir(exist_ok=True)
        self._plain = self._path.open("wb")
        self._file: Any = gzip.GzipFile(fileobj=self._plain, mode="wb", mtime=0) if outlet.is_zipped else self._plain
        try:
            self._writer: Writer = open_writer(outlet.format, self._file, schema, outlet.options)
        except BaseException:
            self.give_up()
            raise

    def write(self, rows: pa.Table) -> None:
        self._writer.write(rows)

    def close(self) -> None:
        self._writer.close()
        if self._file is not self._plain:
            self._file.close()
        self._plain.flush()
        os.fsync(self._plain.fileno())
        self._plain.close()

    def give_up(self) -> None:
        """Discard the file, and free its place; its rest in staging is not listed."""
        with suppress(OSError):
            self._path.unlink()
        with suppress(OSError):
            self._plain.close()


class _TaskFiles:
    """The files that a task writes for one port, one after another."""

    def __init__(self, outlet: Outlet, partition: int, attempt: int) -> None:
        self._outlet = outlet
        self._partition = partition
        # Attempts are numbered from 0 by each run, and an attempt of a killed run may still be writing.
        self._attempt = f"{attempt}-{uuid.uuid4().hex}"
        self._waiting: list[pa.Table] = []
        self._file: _OpenFile | None = None
        #: (staged name, name) of each file that is complete or open.
        self.files: list[tuple[str, str]] = []
        self.rows = 0
        #: Why it failed; None: it didn't.
        self.failure: str | None = None

    @property
    def is_open(self) -> bool:
        return self._file is not None

    def add(self, rows: pa.Table) -> None:
        """Add rows; they wait for `flush` or `finish`."""
        if self.failure is None:
            self._waiting.append(self._outlet.pick(rows))
            self.rows += rows.num_rows

    def flush(self) -> None:
        if not self._waiting or self.failure is not None:
            return
        rows = pa.concat_tables(self._waiting)
        self._waiting.clear()
        try:
            if self._file is None:
                self._file = self._next(rows.schema)
            self._file.write(rows)
        except OSError as error:
            self._fail(error)

    def finish(self) -> None:
        self.flush()
        if self._file is None:
            return
        try:
            self._file.close()
        except OSError as error:
            self._fail(error)
        self._file = None

    def give_up(self) -> None:
        self._waiting.clear()
        if self._file is not None:
            self._file.give_up()
            self._file = None

    def _next(self, schema: pa.Schema) -> _OpenFile:
        number = f"_{len(self.files):03d}" if self.files else ""
        name = f"part-{self._partition:05d}{number}{self._outlet.suffix}"
        staged = f"{name}.{self._attempt}"
        file = _OpenFile(self._outlet, staged, schema)
        self.files.append((staged, name))
        return file

    def _fail(self, error: OSError) -> None:
        self.failure = f"{error.filename or self._outlet.staging}: {error.strerror or error}"
        self.give_up()


class _Desk:
    def __init__(self, outlets: Mapping[int, Outlet], partition: int, attempt: int) -> None:
        self._outlets = outlets
        self._partition = partition
        self._attempt = attempt
        self._held_bytes = 0
        self.parts: dict[int, _TaskFiles] = {}

    def take(self, table: pa.Table, ports: pa.ChunkedArray) -> None:
        for port, rows in _by_port(table, ports):
            if port not in self._outlets:
                continue
            part = self.parts.pop(port, None) or _TaskFiles(self._outlets[port], self._partition, self._attempt)
            self.parts[port] = part  # moved to the end: the last one used
            part.add(rows)
        self._held_bytes += table.nbytes
        if self._held_bytes > _MOST_HELD_BYTES:
            self._flush()

    def _flush(self) -> None:
        opened = sum(part.is_open for part in self.parts.values())
        oldest = [part for part in self.parts.values() if part.is_open]
        for part in self.parts.values():
            was_open = part.is_open
            part.flush()
            opened += part.is_open and not was_open
            if opened > _MOST_OPEN:
                unused = next(
                    (other_part for other_part in oldest if other_part.is_open and other_part is not part), part
                )
                unused.finish()
                opened -= 1
        self._held_bytes = 0

    def finish(self) -> None:
        """Finish all files; several at a time, because they wait for the disk."""
        if len(self.parts) <= 2:
            for part in self.parts.values():
                part.finish()
            return
        with ThreadPoolExecutor(min(_THREADS, len(self.parts))) as threads:
            list(threads.map(_TaskFiles.finish, self.parts.values()))

    def give_up(self) -> None:
        for part in self.parts.values():
            part.give_up()


@dataclass(frozen=True, slots=True)
class Parts:
    #: The ports that are written here, by place: a destination's place in `destinations`, then the port for set-aside messages, then the
    #: port for unrouted messages.
    outlets: Mapping[int, Outlet]
    destinations: tuple[str, ...]
    #: The places of ports whose rows are passed on, to be written by a later `Parts`.
    onward: frozenset[int] = frozenset()
    #: Whether the rows come from an earlier `Parts`, with its answer among them; else this one counts them.
    answered: bool = False

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """From rows to `ANSWER`."""
        answer: list[dict[str, Any]] = []
        yield from self._write(batches, answer)
        yield pa.RecordBatch.from_pylist(answer, schema=_ANSWER)

    def passing_on(self, schema: bytes, opening: InArrow | None) -> InArrow:
        """Return the way from rows to the rows of `onward`, and the answer as `telling` rows."""

        def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            fields = pa.ipc.read_schema(pa.py_buffer(schema))
            answer: list[dict[str, Any]] = []
            for rows in self._write(batches if opening is None else opening(batches), answer):
                yield pa.RecordBatch.from_arrays(rows.columns, schema=fields)  # a stream has one schema
            yield telling(pa.array([json.dumps(row) for row in answer]), fields)

        return run

    def _write(self, batches: Iterable[pa.RecordBatch], answer: list[dict[str, Any]]) -> Iterator[pa.RecordBatch]:
        """Write rows, and return the rows to pass on; at the end fill in the answer."""
        context = TaskContext.get()
        if context is None:
            raise RuntimeError("parts are written in a Spark task")
        known = pa.array(self.destinations, pa.string())
        onward = pa.array(sorted(self.onward), pa.int32())
        counts: Counter[tuple[str, str]] = Counter()
        told: list[str] = []
        reasons = ReasonCounts()
        desk = _Desk(self.outlets, context.partitionId(), context.taskAttemptId())
        try:
            for batch in batches:
                table = pa.Table.from_batches([batch])
                # The texts that travel among the messages.
                told += table.column("reason").filter(pc.is_null(table.column("disposition"))).to_pylist()
                if not self.answered:
                    _count(table, counts)
                if "_line" in table.column_names:  # all of them pass here, with their text
                    reasons.add(table)
                ports = _ports(table, known)
                desk.take(table, ports)
                leaving = pc.is_in(ports, onward)
                if pc.any(leaving).as_py():
                    yield from table.filter(leaving).to_batches()
            desk.finish()
        except BaseException:
            desk.give_up()
            raise
        answer += _files(desk.parts)
        answer += ({"kind": "reason", "text": reason.to_json()} for reason in reasons.found())
        if self.answered:
            answer += map(json.loads, told)
        else:
            answer += [*_counted(counts), *({"kind": "report", "text": report} for report in told)]


def _ports(table: pa.Table, destinations: pa.Array) -> pa.ChunkedArray:
    """The place of each row's port; null for a row that isn't written."""
    disposition = table.column("disposition")
    place = pc.index_in(table.column("destination"), destinations)
    aside = pa.scalar(len(destinations), pa.int32())
    place = pc.if_else(pc.equal(disposition, "released"), place, aside)
    place = pc.if_else(pc.equal(disposition, "unrouted"), pa.scalar(len(destinations) + 1, pa.int32()), place)
    # Voids and copies are only counted: they leave nothing, and a copy has a message that was seen first.
    place = pc.if_else(pc.is_in(disposition, value_set=pa.array(["void", "copy"])), pa.scalar(None, pa.int32()), place)
    if "_output" in table.column_names:  # 0: consumed by a function; only its place in the order is left
        place = pc.if_else(pc.equal(pc.fill_null(table.column("_output"), 1), 0), pa.scalar(None, pa.int32()), place)
    return place


def _by_port(table: pa.Table, ports: pa.ChunkedArray) -> Iterator[tuple[int, pa.Table]]:
    places = pc.fill_null(ports, -1).to_numpy()
    if not len(places):
        return
    if places[0] >= 0 and (places == places[0]).all():
        yield int(places[0]), table
        return
    order = np.argsort(places, kind="stable")
    order = order[np.searchsorted(places[order], 0) :]
    if not len(order):
        return
    sorted_rows, sorted_places = table.take(pa.array(order)), places[order]
    starts = np.concatenate(([0], np.flatnonzero(np.diff(sorted_places)) + 1))
    for start, end in zip(starts, [*starts[1:], len(order)], strict=True):
        yield int(sorted_places[start]), sorted_rows.slice(start, end - start)


def _count(table: pa.Table, counts: Counter[tuple[str, str]]) -> None:
    decided = table.select([name for name in ("destination", "disposition", "_output") if name in table.column_names])
    if "_output" in table.column_names:
        decided = decided.filter(pc.less_equal(pc.fill_null(table.column("_output"), 1), 1))
    grouped = decided.group_by(["destination", "disposition"]).aggregate([([], "count_all")])
    for row in grouped.to_pylist():
        if row["disposition"] is not None:
            counts[row["destination"] or "", row["disposition"]] += row["count_all"]


def _files(parts: Mapping[int, _TaskFiles]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for port, part in parts.items():
        if part.failure is not None:
            rows.append({"kind": "failed", "port": port, "text": part.failure})
            continue
        rows += [{"kind": "part", "port": port, "name": name, "text": staged, "rows": 0} for staged, name in part.files]
        rows[-1]["rows"] = part.rows
    return rows


def _counted(counts: Mapping[tuple[str, str], int]) -> list[dict[str, Any]]:
    return [
        {"kind": "task", "rows": sum(counts.values())},
        *(
            {"kind": "count", "destination": destination, "disposition": disposition, "rows": count}
            for (destination, disposition), count in counts.items()
        ),
    ]
