"""Writing the files of a micro-batch, in the workers: one task of one Spark job writes for all ports.

A task gets rows in the order in which they leave, and keeps it. It answers with what it wrote and what it
counted; the driver puts files in place only if a task answered, so a task that ran twice delivers once.
"""

from __future__ import annotations

import gzip
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
from pyspark import TaskContext

from seriatim.errors import UsageError
from seriatim.spark.port import Port

__all__ = ["ANSWER", "Outlet", "Parts", "check_options", "is_typed"]

#: What a task answers: files (`port`, `text` the staged and `name` the final name), counts and reports (`text`).
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

_OPTIONS: Mapping[str, Mapping[str, tuple[str, ...] | None]] = {
    "json": {"compression": ("none", "gzip")},
    "csv": {"compression": ("none", "gzip"), "header": ("true", "false"), "sep": None, "delimiter": None},
    "parquet": {"compression": ("none", "snappy", "gzip", "zstd", "lz4")},
}
_ROW_GROUP_BYTES = 64 * 2**20
_ROW_GROUP_ROWS = 200_000


def check_options(port: Port) -> None:
    """See that a port can be written.

    Raises:
        UsageError: a format or option that isn't known.
    """
    where = f"destination {port.destination}"
    known = _OPTIONS.get(port.format)
    if known is None:
        raise UsageError(f"the format {port.format!r} can't be delivered", where=where, remedy=", ".join(_OPTIONS))
    for name, value in port.options.items():
        if name not in known:
            what = f"unknown option {name!r} of {port.format}"
            raise UsageError(what, where=where, remedy=f"it takes {', '.join(known)}")
        allowed = known[name]
        if allowed is not None and value not in allowed:
            raise UsageError(f"{name} is {' or '.join(allowed)}, not {value!r}", where=where)
        if allowed is None and (len(value) != 1 or value in '\r\n"'):
            raise UsageError(f"{name} is one character, not {value!r}", where=where)


def is_typed(port: Port) -> bool:
    """Whether the port takes columns; else it takes the text of each row."""
    return port.format != "json"


@dataclass(frozen=True, slots=True)
class Outlet:
    """What a port takes: (name in the file, column of the frame) of each column; for JSON none, it takes ``_line``."""

    port: Port
    columns: tuple[tuple[str, str], ...] = ()


class _Writer(Protocol):
    def write(self, rows: pa.Table) -> None: ...
    def close(self) -> None: ...


class _Lines:
    def __init__(self, file: Any) -> None:
        self._file = file

    def write(self, rows: pa.Table) -> None:
        lines = rows.column("_line").cast(pa.binary()).to_pylist()
        self._file.write(b"\n".join(lines) + b"\n")

    def close(self) -> None:
        pass


class _Csv:
    def __init__(self, file: Any, schema: pa.Schema, options: Mapping[str, str]) -> None:
        chosen = pacsv.WriteOptions(
            include_header=options.get("header", "true") == "true",
            delimiter=options.get("sep", options.get("delimiter", ",")),
        )
        self._schema = pa.schema([(field.name, _csv_type(field.type)) for field in schema])
        self._writer = pacsv.CSVWriter(file, self._schema, write_options=chosen)

    def write(self, rows: pa.Table) -> None:
        self._writer.write_table(rows.cast(self._schema))

    def close(self) -> None:
        self._writer.close()


def _csv_type(kind: pa.DataType) -> pa.DataType:
    plain = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    return kind if plain or pa.types.is_timestamp(kind) else pa.string()


class _Parquet:
    def __init__(self, file: Any, schema: pa.Schema, options: Mapping[str, str]) -> None:
        self._writer = pq.ParquetWriter(file, schema, compression=options.get("compression", "zstd"))
        self._waiting: list[pa.Table] = []

    def write(self, rows: pa.Table) -> None:
        self._waiting.append(rows)
        waiting = sum(table.num_rows for table in self._waiting), sum(table.nbytes for table in self._waiting)
        if waiting[0] >= _ROW_GROUP_ROWS or waiting[1] >= _ROW_GROUP_BYTES:
            self._flush()

    def _flush(self) -> None:
        if self._waiting:
            self._writer.write_table(pa.concat_tables(self._waiting))
            self._waiting.clear()

    def close(self) -> None:
        self._flush()
        self._writer.close()


class _Part:
    """One file of one port."""

    def __init__(self, outlet: Outlet, partition: int, attempt: int) -> None:
        port = outlet.port
        zipped = port.format != "parquet" and port.options.get("compression") == "gzip"
        self.name = f"part-{partition:05d}.{port.format}{'.gz' if zipped else ''}"
        self.staged = f"{self.name}.{attempt}"
        self.rows = 0
        self._outlet = outlet
        port.staging.mkdir(exist_ok=True)
        self._plain = Path(port.staging, self.staged).open("wb")  # noqa: SIM115 - closed by `close`
        self._file: Any = gzip.GzipFile(fileobj=self._plain, mode="wb", mtime=0) if zipped else self._plain
        self._writer: _Writer | None = None

    def write(self, rows: pa.Table) -> None:
        """Append rows."""
        if self._outlet.columns:
            names = [name for name, _ in self._outlet.columns]
            rows = rows.select([column for _, column in self._outlet.columns]).rename_columns(names)
        if self._writer is None:
            self._writer = self._open(rows.schema)
        self._writer.write(rows)
        self.rows += rows.num_rows

    def _open(self, schema: pa.Schema) -> _Writer:
        match self._outlet.port.format:
            case "csv":
                return _Csv(self._file, schema, self._outlet.port.options)
            case "parquet":
                return _Parquet(self._file, schema, self._outlet.port.options)
            case _:
                return _Lines(self._file)

    def close(self) -> None:
        """Finish the file, on disk."""
        if self._writer is not None:
            self._writer.close()
        if self._file is not self._plain:
            self._file.close()
        self._plain.flush()
        os.fsync(self._plain.fileno())
        self._plain.close()

    def give_up(self) -> None:
        """Let go of the file; it stays in staging, unlisted."""
        self._plain.close()


@dataclass(frozen=True, slots=True)
class Parts:
    """Writes a task's rows; ``_port`` says for which of the outlets each is, null for none."""

    outlets: tuple[Outlet, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """From the columns of `deliver` to `ANSWER`."""
        context = TaskContext.get()
        if context is None:
            raise RuntimeError("parts are written in a Spark task")
        counts: Counter[tuple[str, str]] = Counter()
        reports: list[str] = []
        parts: dict[int, _Part] = {}
        try:
            for batch in batches:
                table = pa.Table.from_batches([batch])
                _count(table, counts, reports)
                for port in pc.unique(table.column("_port").drop_null()).to_pylist():
                    if port not in parts:
                        parts[port] = _Part(self.outlets[port], context.partitionId(), context.taskAttemptId())
                    parts[port].write(table.filter(pc.equal(table.column("_port"), port)))
            for part in parts.values():
                part.close()
        except BaseException:
            for part in parts.values():
                part.give_up()
            raise
        yield _answer(parts, counts, reports)


def _count(table: pa.Table, counts: Counter[tuple[str, str]], reports: list[str]) -> None:
    grouped = table.group_by(["_destination", "_disposition"]).aggregate([([], "count_all")])
    for row in grouped.to_pylist():
        if row["_disposition"] is not None:
            counts[row["_destination"], row["_disposition"]] += row["count_all"]
    silent = table.filter(pc.is_null(table.column("_disposition")))
    reports.extend(silent.column("_report").to_pylist())


def _answer(
    parts: Mapping[int, _Part], counts: Mapping[tuple[str, str], int], reports: Iterable[str]
) -> pa.RecordBatch:
    rows: list[dict[str, Any]] = [
        {"kind": "part", "port": port, "name": part.name, "text": part.staged, "rows": part.rows}
        for port, part in parts.items()
    ]
    rows += [
        {"kind": "count", "destination": destination, "disposition": disposition, "rows": count}
        for (destination, disposition), count in counts.items()
    ]
    rows += [{"kind": "report", "text": report} for report in reports]
    return pa.RecordBatch.from_pylist(rows, schema=_ANSWER)
