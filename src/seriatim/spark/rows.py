"""The rows of text files in a worker: counted, named, and read by what `promote.py` knows.

Spark's text source has no row numbers, and a stream refuses generated ones. But a task reads its blocks
from front to back, so the rows are counted here, per file and block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, BinaryIO, Protocol
from urllib.parse import unquote, urlsplit

import numpy as np
import pyarrow as pa
from pyarrow import fs

from seriatim.pipeline.declaration import Promotion
from seriatim.spark.promote import CsvColumns, JsonPaths, Unreadable, arrow_type

__all__ = ["Block", "CsvRows", "JsonRows", "Location", "RowFormat"]

#: From a body to the promoted values; None for a row that is no message (blank, a header). Raises `Unreadable`.
ReadRow = Callable[[bytes], list[Any] | None]


@dataclass(frozen=True, slots=True)
class Block:
    """The part of a file that begins at byte `start`, which one task reads; `path` is a URI."""

    path: str
    start: int


class RowFormat(Protocol):
    """A text format."""

    def reader(self, block: Block) -> ReadRow:
        """What reads the rows of a block, one after another from its first."""


@dataclass(frozen=True, slots=True)
class JsonRows:
    """A document a row."""

    paths: JsonPaths

    def reader(self, block: Block) -> ReadRow:
        """See `RowFormat`."""
        read = self.paths.reader()
        return lambda body: read(body) if _is_filled(body) else None


@dataclass(frozen=True, slots=True)
class CsvRows:
    """Fields under the file's own header, or under `names` where the files have none."""

    columns: CsvColumns
    names: tuple[str, ...] | None = None

    def reader(self, block: Block) -> ReadRow:
        """See `RowFormat`."""
        if self.names is not None:
            read = self.columns.reader(self.names)
            return lambda body: read(body) if _is_filled(body) else None
        return _UnderHeader(self.columns, _first_line(block.path) if block.start else None)


class _UnderHeader:
    """Reads the rows of a block, of which the first is the header unless it stands in an earlier block."""

    def __init__(self, columns: CsvColumns, header: bytes | None) -> None:
        self._columns = columns
        self._read: Callable[[bytes], list[Any]] | None = None
        if header is not None:
            self._begin(header)

    def __call__(self, body: bytes) -> list[Any] | None:
        if not _is_filled(body):
            return None
        if self._read is None:
            self._begin(body)
            return None
        return self._read(body)

    def _begin(self, header: bytes) -> None:
        try:
            self._read = self._columns.reader(self._columns.header(header))
        except Unreadable as error:
            reason = f"the header can't be read: {error}"
            self._read = lambda _: _refuse(reason)


def _refuse(reason: str) -> list[Any]:
    raise Unreadable(reason)


def _is_filled(body: bytes) -> bool:
    return bool(body) and not body.isspace() and body != b"\xef\xbb\xbf"


def _first_line(path: str) -> bytes:
    """The first filled line of a file, which another task reads."""
    stream: BinaryIO
    if urlsplit(path).scheme in {"", "file"}:
        with open(unquote(urlsplit(path).path), "rb") as stream:  # noqa: PTH123 - a worker's hot path needs no Path
            return next((line.rstrip(b"\r\n") for line in stream if _is_filled(line)), b"")
    filesystem, inner = fs.FileSystem.from_uri(path)
    with filesystem.open_input_file(inner) as stream:
        return next((line.rstrip(b"\r\n") for line in stream if _is_filled(line)), b"")


@dataclass(frozen=True, slots=True)
class Location:
    """Reads a task's rows of one location.

    Args:
        name: the location.
        root: its folder, absolute; files are named from there.
        promote: the properties, in the order in which `rows` yields them.
        rows: the format.
    """

    name: str
    root: str
    promote: tuple[Promotion, ...]
    rows: RowFormat

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """From (body, path, block, received_at) to the columns of `receive`."""
        counter = _Counter(self)
        for batch in batches:
            if batch.num_rows:
                yield counter.read(batch)

    def file(self, path: str) -> str:
        """A file's name from the location's folder."""
        whole = unquote(urlsplit(path).path)
        return whole.removeprefix(self.root).lstrip("/") if whole.startswith(self.root) else whole


class _Counter:
    """Where a task is: in which block, at which row."""

    def __init__(self, location: Location) -> None:
        self._location = location
        self._block: Block | None = None
        self._read: ReadRow = _nothing
        self._rows = 0
        self._file = self._name = ""

    def read(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        found = _Found([[] for _ in self._location.promote])
        starts = batch.column(2).to_numpy()
        for first, past in _runs(batch.column(1), starts):
            self._enter(Block(batch.column(1)[first].as_py(), int(starts[first])))
            for offset, body in enumerate(batch.column(0).slice(first, past - first)):
                self._row(first + offset, body.as_py(), found)
        kept = pa.array(found.kept, pa.int64())
        values = zip(found.values, self._location.promote, strict=True)
        columns = {
            "message_id": pa.array(found.names, pa.string()),
            "received_at": batch.column(3).take(kept),
            "body": batch.column(0).take(kept),
            "_invalid": pa.array(found.reasons, pa.string()),
            "_file": pa.array(found.files, pa.string()),
            "_position": pa.array(found.positions, pa.int64()),
            **{item.name: pa.array(column, arrow_type(item.type)) for column, item in values},
        }
        return pa.RecordBatch.from_pydict(columns)

    def _enter(self, block: Block) -> None:
        if block == self._block:
            return
        self._block, self._rows = block, 0
        self._read = self._location.rows.reader(block)
        self._file = self._location.file(block.path)
        self._name = f"{self._file}@{block.start}" if block.start else self._file

    def _row(self, place: int, body: bytes, found: _Found) -> None:
        start = self._block.start if self._block else 0
        # The first block holds a row that begins at its very end; the others have none at their very start.
        position = start + self._rows + (1 if start else 0)
        self._rows += 1
        reason = None
        try:
            values = self._read(body)
            if values is None:
                return
        except Unreadable as error:
            values = [None] * len(self._location.promote)
            reason = f"{self._name}:{self._rows}: {error}"
        for column, value in zip(found.values, values, strict=True):
            column.append(value)
        found.kept.append(place)
        found.names.append(f"{self._location.name}/{self._name}:{self._rows}")
        found.reasons.append(reason)
        found.files.append(self._file)
        found.positions.append(position)


class _Found:
    """What a batch's rows gave, column by column."""

    def __init__(self, values: list[list[Any]]) -> None:
        self.values = values
        self.kept: list[int] = []
        self.names: list[str] = []
        self.reasons: list[str | None] = []
        self.files: list[str] = []
        self.positions: list[int] = []


def _nothing(_: bytes) -> None:
    return None


def _runs(paths: pa.Array, starts: np.ndarray[Any, Any]) -> Iterator[tuple[int, int]]:
    """The stretches of rows that are of one block, as (first, past the last)."""
    files = paths.dictionary_encode().indices.to_numpy()
    changes = np.flatnonzero((files[1:] != files[:-1]) | (starts[1:] != starts[:-1])) + 1
    bounds = [0, *changes.tolist(), len(files)]
    yield from pairwise(bounds)
