"""The rows of text files in a worker: counted and named, then read.

Spark's text source has no row numbers, and a stream refuses generated ones. But a task reads its blocks
from front to back, so the rows are counted here, per file and block.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from seriatim.spark.receive.body_reader import FoundMessages, Reader, Reading
from seriatim.spark.receive.gz_files import Rows, Shape, numbered, rows_of, runs
from seriatim.spark.receive.json_columns import JsonColumns
from seriatim.spark.receive.row_formats import Block

#: The column with the first byte of a message's block.
START = "__sq_start"

#: A run of fewer rows is read one by one; where all rows can't be read at once, a run is cut into so many pieces.
_FEW, _PIECES = 64, 16
#: After so many runs of which most pieces were odd, a task reads row by row.
_MOST_ODD = 3


@dataclass(frozen=True, slots=True)
class LineReader:
    reading: Reading
    #: The location's folder, absolute; names of files are relative to it.
    root: str
    shape: Shape
    #: Whether messages say at which byte of a file their block begins.
    with_starts: bool = False

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Convert (body, path, block, received_at) to the columns of `receive`."""
        counter = _Counter(self)
        for rows in rows_of(batches, self.shape):
            yield from counter.read(rows)

    def file(self, path: str) -> str:
        """A file's name relative to the location's folder."""
        whole = unquote(urlsplit(path).path)
        return whole.removeprefix(self.root).lstrip("/") if whole.startswith(self.root) else whole


class _Counter:
    """The position of a task: its block and its row."""

    def __init__(self, lines: LineReader) -> None:
        self._lines = lines
        self._reader = Reader(lines.reading)
        self._columns = JsonColumns.of(lines.reading)
        self._odd = 0  # so many runs, one after another, had odd rows nearly everywhere
        self._block: Block | None = None
        self._rows = 0
        self._file = self._name = ""

    def read(self, arrived: Rows) -> Iterator[pa.RecordBatch]:
        batch = arrived.batch
        starts = batch.column(2).to_numpy()
        rows = _Rows(batch, self._lines)
        for first, past in runs(numbered(batch.column(1)), starts):
            self._enter(Block(batch.column(1)[first].as_py(), int(starts[first])))
            start, before = int(starts[first]), self._rows - first
            # The first block holds a row that begins at its very end; the others have none at their very start.
            rows.positions[first:past] = np.arange(first, past) + before + (start + 1 if start else 0)
            rows.run[first:past] = len(rows.files)
            rows.files.append(self._file)
            self._rows += past - first
            for begin, end, values in self._pieces(batch.column(0), first, past):
                bodies = batch.column(0).slice(begin, end - begin)
                if values is None:
                    names = {place: f"{self._name}:{place + before + 1}" for place in range(begin, end)}
                    found = self._reader.read(bodies.to_pylist(), names, begin, lacking=arrived.refused)
                    yield from map(rows.named, found)
                    continue
                yield from self._taken(rows)
                name = pa.scalar(f"{self._lines.reading.location}/{self._name}:")
                numbers = pa.array(np.arange(begin, end) + before + 1).cast(pa.string())
                yield rows.plain(begin, bodies, pc.binary_join_element_wise(name, numbers, ""), values)
        yield from self._taken(rows)

    def _taken(self, rows: _Rows) -> Iterator[pa.RecordBatch]:
        found = self._reader.taken()
        if found.kept:
            yield rows.named(found)

    def _pieces(
        self, bodies: pa.BinaryArray, first: int, past: int
    ) -> Iterator[tuple[int, int, list[pa.Array] | None]]:
        """Ranges of rows of a block, each with the values of its properties; None: its rows are read one by one. One odd row costs a piece
        only; where most pieces have odd rows, the rest of the task isn't tried any more.
        """
        columns = self._columns
        if columns is None or self._odd >= _MOST_ODD or past - first < _FEW:
            yield first, past, None
            return
        values = columns.read(bodies.slice(first, past - first))
        if values is not None:
            self._odd = 0
            yield first, past, values
            return
        each, odd = -(-(past - first) // _PIECES), 0
        for begin in range(first, past, each):
            end = min(begin + each, past)
            values = columns.read(bodies.slice(begin, end - begin))
            odd += values is None
            yield begin, end, values
        self._odd = self._odd + 1 if 2 * odd > _PIECES else 0

    def _enter(self, block: Block) -> None:
        if block == self._block:
            return
        self._block, self._rows = block, 0
        self._reader.enter(block)
        self._file = self._lines.file(block.path)
        self._name = f"{self._file}@{block.start}" if block.start else self._file


class _Rows:
    """The rows of a batch, as the columns of `receive`: in runs of one block, each with its file."""

    def __init__(self, batch: pa.RecordBatch, lines: LineReader) -> None:
        self._batch = batch
        self._names = [item.name for item in lines.reading.promote]
        self._with_starts = lines.with_starts
        self.files: list[str] = []
        self.run = np.empty(batch.num_rows, np.int64)
        self.positions = np.empty(batch.num_rows, np.int64)

    def named(self, found: FoundMessages) -> pa.RecordBatch:
        columns = found.columns(self._batch.column(0))
        return self._columns(np.array(found.kept, np.int64), columns)

    def plain(self, first: int, bodies: pa.Array, ids: pa.Array, values: list[pa.Array]) -> pa.RecordBatch:
        """The messages of all rows from the first on, by their columns."""
        columns = {"message_id": ids, "body": bodies, "_invalid": pa.nulls(len(bodies), pa.string())}
        columns |= zip(self._names, values, strict=True)
        return self._columns(np.arange(first, first + len(bodies)), columns)

    def _columns(self, kept: np.ndarray[Any, Any], columns: dict[str, pa.Array]) -> pa.RecordBatch:
        return pa.RecordBatch.from_pydict(
            {
                "message_id": columns.pop("message_id"),
                "received_at": self._batch.column(3).take(pa.array(kept)),
                "body": columns.pop("body"),
                "_invalid": columns.pop("_invalid"),
                "_file": pa.array(self.files, pa.string()).take(pa.array(self.run[kept])),
                "_position": pa.array(self.positions[kept]),
                **columns,
                **({START: self._batch.column(2).take(pa.array(kept))} if self._with_starts else {}),
            }
        )
