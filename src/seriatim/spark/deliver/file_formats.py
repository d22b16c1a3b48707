"""Write tables into an open file, in their order: JSON lines, CSV, Parquet; check the options of these formats."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from seriatim.errors import UsageError

_OPTIONS: Mapping[str, Mapping[str, tuple[str, ...] | None]] = {
    "json": {"compression": ("none", "gzip")},
    "csv": {"compression": ("none", "gzip"), "header": ("true", "false"), "sep": None, "delimiter": None},
    "parquet": {"compression": ("none", "snappy", "gzip", "zstd", "lz4")},
}
#: The formats that this package writes, each batch exactly once; any other is Spark's.
FORMATS = tuple(_OPTIONS)

_ROW_GROUP_BYTES = 64 * 2**20
_ROW_GROUP_ROWS = 200_000


def check_options(destination: str, kind: str, options: Mapping[str, str]) -> None:
    where, known = f"destination {destination}", _OPTIONS[kind]
    for name, value in options.items():
        if name not in known:
            problem = f"unknown option {name!r} of {kind}"
            raise UsageError(problem, where=where, remedy=f"it takes {', '.join(known)}")
        allowed = known[name]
        if allowed is not None and value not in allowed:
            raise UsageError(f"{name} must be {' or '.join(allowed)}, not {value!r}", where=where)
        if allowed is None and (len(value) != 1 or value in '\r\n"'):
            raise UsageError(f"{name} must be one character, not {value!r}", where=where)


class Writer(Protocol):
    def write(self, rows: pa.Table) -> None:
        """Append rows; they may stay in memory until `close`."""

    def close(self) -> None:
        """Write the remaining rows."""


def open_writer(kind: str, file: Any, schema: pa.Schema, options: Mapping[str, str]) -> Writer:
    match kind:
        case "csv":
            return _Csv(file, schema, options)
        case "parquet":
            return _Parquet(file, schema, options)
        case _:
            return _Lines(file)


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
        try:
            plain = rows.cast(self._schema)
        except pa.ArrowInvalid:  # a body that is not UTF-8; Parquet keeps each of its bytes
            texts = [_as_text(column) for column in rows.columns]
            plain = pa.table(texts, names=rows.column_names).cast(self._schema)
        self._writer.write_table(plain)

    def close(self) -> None:
        self._writer.close()


def _csv_type(kind: pa.DataType) -> pa.DataType:
    plain = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    return kind if plain or pa.types.is_timestamp(kind) else pa.string()


def _as_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if not pa.types.is_binary(column.type):
        return column
    texts = [None if value is None else value.decode("utf-8", "replace") for value in column.to_pylist()]
    return pa.chunked_array([pa.array(texts, pa.string())])


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
