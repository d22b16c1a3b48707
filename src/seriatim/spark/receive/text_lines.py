"""The rows of text files in a worker: counted and named, then read.

Spark's text source has no row numbers, and a stream refuses generated ones. But a task reads its blocks
from front to back, so the rows are counted here, per file and block.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np
import pyarrow as pa

from seriatim.spark.receive.body_reader import FoundMessages, Reader, Reading
from seriatim.spark.receive.gz_files import Rows, Shape, rows_of
from seriatim.spark.receive.row_formats import Block

__all__ = ["LineReader"]


@dataclass(frozen=True, slots=True)
class LineReader:
    """Reads a task's rows of one location."""

    reading: Reading
    #: The location's folder, absolute; names of files are relative to it.
    root: str
    shape: Shape

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
        self._block: Block | None = None
        self._rows = 0
        self._file = self._name = ""

    def read(self, arrived: Rows) -> Iterator[pa.RecordBatch]:
        batch = arrived.batch
        starts = batch.column(2).to_numpy()
        positions = np.empty(batch.num_rows, np.int64)
        names: list[str] = []
        files: list[str] = []
        for first, past in _runs(batch.column(1), starts):
            self._enter(Block(batch.column(1)[first].as_py(), int(starts[first])))
            start, rows, count = int(starts[first]), self._rows, past - first
            # The first block holds a row that begins at its very end; the others have none at their very start.
            positions[first:past] = np.arange(rows, rows + count) + (start + 1 if start else 0)
            names += [f"{self._name}:{number}" for number in range(rows + 1, rows + count + 1)]
            files += [self._file] * count
            self._rows += count
            bodies = batch.column(0).slice(first, count).to_pylist()
            for messages in self._reader.read(bodies, names, first, lacking=arrived.refused):
                yield _named(messages, batch, files, positions)
        yield _named(self._reader.taken(), batch, files, positions)

    def _enter(self, block: Block) -> None:
        if block == self._block:
            return
        self._block, self._rows = block, 0
        self._reader.enter(block)
        self._file = self._lines.file(block.path)
        self._name = f"{self._file}@{block.start}" if block.start else self._file


def _named(
    messages: FoundMessages, batch: pa.RecordBatch, files: list[str], positions: np.ndarray[Any, Any]
) -> pa.RecordBatch:
    kept = pa.array(messages.kept, pa.int64())
    columns = messages.columns(batch.column(0))
    return pa.RecordBatch.from_pydict(
        {
            "message_id": columns.pop("message_id"),
            "received_at": batch.column(3).take(kept),
            "body": columns.pop("body"),
            "_invalid": columns.pop("_invalid"),
            "_file": pa.array([files[place] for place in messages.kept], pa.string()),
            "_position": pa.array(positions[messages.kept], pa.int64()),
            **columns,
        }
    )


def _runs(paths: pa.Array, starts: np.ndarray[Any, Any]) -> Iterator[tuple[int, int]]:
    """The ranges of rows of one block, as (first, past the last)."""
    files = paths.dictionary_encode().indices.to_numpy()
    changes = np.flatnonzero((files[1:] != files[:-1]) | (starts[1:] != starts[:-1])) + 1
    bounds = [0, *changes.tolist(), len(files)]
    yield from pairwise(bounds)
