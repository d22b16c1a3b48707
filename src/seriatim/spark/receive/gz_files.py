"""Rows of text files by the rules of a location: `.gz` files expanded, and no row larger than the location allows.

Spark expands a file in its own process and assembles each row there as a whole: a row of 1 GiB, which takes 5 MB as a
`.gz`, ends that process at each start. So Spark passes `.gz` files unexpanded, in pieces (`HANDED_OVER`), and
they are expanded here, a little at a time; bytes of a row beyond the limit are never kept. Spark itself reads files of
any other kind: the sizes of their rows are checked before the batch (`row_sizes.py`).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from urllib.parse import unquote, urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from seriatim.errors import EnvironmentProblem

#: The end of the name of a file that is expanded here.
ZIPPED = ".gz"
#: Options with which Spark's text source passes `.gz` files unexpanded. Its build of Hadoop has a name of its own for the second
#: option; others have the usual name.
HANDED_OVER = {
    "io.compression.codecs": "org.apache.hadoop.io.compress.PassthroughCodec",
    "org.apache.hadoop.shaded.io.compress.passthrough.extension": ".gz",
    "io.compress.passthrough.extension": ".gz",
}
#: The end of a line that Spark passes; this module handles a carriage return.
NEW_LINE = b"\n"

_MARK_OF_UTF8 = b"\xef\xbb\xbf"
_STEP_BYTES = 2**20
_MOST_ROWS, _ENOUGH_BYTES = 10_000, 16 * 2**20
_BODY = pa.field("body", pa.binary())


@dataclass(frozen=True, slots=True)
class Shape:
    most: int
    #: The end of a row; None: a new line, a carriage return, or both together.
    separator: bytes | None = None
    whole: bool = False

    @property
    def between(self) -> bytes:
        """The separator that Spark removes between two rows that it passes."""
        return b"" if self.whole else self.separator or NEW_LINE

    @property
    def by_lines(self) -> bool:
        """Whether a row is a line, with any usual line end."""
        return self.separator is None and not self.whole

    def refusal(self, size: int, *, whole_size: bool = True) -> str:
        """The reason why a row of this many bytes is no message; `whole_size` False: the rest of the row wasn't read."""
        size_text = f"{size:,}" if whole_size else f"more than {self.most:,}"
        return f"the row has {size_text} bytes, and the location takes {self.most:,} (maxRowBytes)"


@dataclass(frozen=True, slots=True)
class Rows:
    """Consecutive rows: (body, path, block, received_at), and by place the reasons why rows are no messages."""

    batch: pa.RecordBatch
    refused: dict[int, str]


def rows_of(batches: Iterable[pa.RecordBatch], shape: Shape) -> Iterator[Rows]:
    """Convert the batches that Spark passes to a task to rows of the location."""
    zipped: _Zipped | None = None
    for batch in batches:
        if not batch.num_rows:
            continue
        for first, past in runs(numbered(batch.column(1))):
            path = batch.column(1)[first].as_py()
            if zipped is not None and zipped.path != path:
                yield from zipped.end()
                zipped = None
            piece = batch.slice(first, past - first)
            if not path.endswith(ZIPPED):
                yield _plain(piece, shape)
                continue
            zipped = zipped or _Zipped(path, piece.slice(0, 1), shape)
            yield from zipped.take(piece.column(0).to_pylist())
    if zipped is not None:
        yield from zipped.end()


def _plain(batch: pa.RecordBatch, shape: Shape) -> Rows:
    body = batch.column(0)
    if shape.by_lines and pc.any(pc.match_substring(body, b"\r")).as_py():
        batch = _parted(batch)
        body = batch.column(0)
    sizes = pc.binary_length(body).to_numpy(zero_copy_only=False)
    large = np.flatnonzero(sizes > shape.most).tolist()
    if large:
        kept = pc.if_else(pa.array(sizes <= shape.most), body, pa.scalar(None, body.type))
        batch = batch.set_column(0, _BODY, kept)
    return Rows(batch, {place: shape.refusal(int(sizes[place])) for place in large})


def _parted(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Split rows that end with a new line also at carriage returns."""
    bodies: list[bytes] = []
    places: list[int] = []
    for place, body in enumerate(batch.column(0).to_pylist()):
        lines = body.removesuffix(b"\r").split(b"\r")
        bodies += lines
        places += [place] * len(lines)
    rows = batch.take(pa.array(places, pa.int64()))
    return rows.set_column(0, _BODY, pa.array(bodies, pa.binary()))


def runs(*columns: np.ndarray) -> Iterator[tuple[int, int]]:
    """The ranges of rows that have the same in each of these columns, as (first, past the last)."""
    changes = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    yield from pairwise([0, *(np.flatnonzero(changes) + 1).tolist(), len(columns[0])])


def numbered(paths: pa.Array) -> np.ndarray:
    """A number for each path, the same for the same file."""
    return paths.dictionary_encode().indices.to_numpy()


class _Zipped:
    def __init__(self, path: str, like: pa.RecordBatch, shape: Shape) -> None:
        self.path = path
        self._like = like
        self._shape = shape
        self._expand = zlib.decompressobj(wbits=31)
        self._ended = False  # a member of the file
        self._pieces = 0
        self._part = bytearray()  # of the row that has begun
        self._size = 0  # of that row, including bytes that weren't kept
        self._tail = b""  # the possible beginning of a separator
        self._is_first = True
        self._bodies: list[bytes | None] = []
        self._refused: dict[int, str] = {}
        self._bytes = 0

    def take(self, pieces: list[bytes]) -> Iterator[Rows]:
        """Read the next pieces of the file; yield the completed rows, as soon as there are many."""
        between = self._shape.between
        yield from self._feed((between if self._pieces else b"") + between.join(pieces))
        self._pieces += len(pieces)

    def end(self) -> Iterator[Rows]:
        if not self._ended and not self._is_over:
            yield from self._feed(self._shape.between)  # which may have been its last bytes
            if not self._ended:
                raise self._damaged("it is cut off")
        if self._shape.by_lines:
            self._add(NEW_LINE if self._tail or self._size else b"")
        else:
            self._keep(self._tail)
            if self._size:
                self._complete()
        yield from self._given()

    @property
    def _is_over(self) -> bool:
        """Whether the rest of the file doesn't matter."""
        return self._shape.whole and self._size > self._shape.most

    def _feed(self, data: bytes) -> Iterator[Rows]:
        filled = False  # more may be left than fitted
        while (data or filled) and not self._is_over:
            if self._ended:
                data = data.lstrip(b"\0")
                if not data:
                    return
                self._expand, self._ended = zlib.decompressobj(wbits=31), False
            try:
                expanded = self._expand.decompress(data, _STEP_BYTES)
            except zlib.error as error:
                raise self._damaged(str(error)) from error
            self._ended, filled = self._expand.eof, len(expanded) == _STEP_BYTES and not self._expand.eof
            data = self._expand.unused_data if self._ended else self._expand.unconsumed_tail
            self._add(expanded)
            if self._bytes > _ENOUGH_BYTES or len(self._bodies) > _MOST_ROWS:
                yield from self._given()

    def _add(self, expanded: bytes) -> None:
        separator = self._shape.between
        if not separator:
            self._keep(expanded)
            return
        text = self._tail + expanded
        if self._shape.by_lines and b"\r" in text:
            text, held = (text[:-1], b"\r") if text.endswith(b"\r") else (text, b"")
            text = text.replace(b"\r\n", NEW_LINE).replace(b"\r", NEW_LINE)
        else:
            held = b""
        *complete, rest = text.split(separator)
        for part in complete:
            self._keep(part)
            self._complete()
        kept = max(0, len(rest) - len(separator) + 1)
        self._tail = rest[kept:] + held
        self._keep(rest[:kept])

    def _keep(self, part: bytes) -> None:
        self._size += len(part)
        if self._size <= self._shape.most:
            self._part += part
        else:
            self._part.clear()

    def _complete(self) -> None:
        body: bytes | None = bytes(self._part)
        if self._size > self._shape.most:
            self._refused[len(self._bodies)] = self._shape.refusal(self._size, whole_size=not self._shape.whole)
            body = None
        elif self._is_first and body is not None and not self._shape.whole:
            body = body.removeprefix(_MARK_OF_UTF8)
        self._bodies.append(body)
        self._bytes += len(self._part)
        self._is_first = False
        self._part.clear()
        self._size = 0

    def _given(self) -> Iterator[Rows]:
        if not self._bodies:
            return
        like = self._like.take(pa.array([0] * len(self._bodies), pa.int64()))
        yield Rows(like.set_column(0, _BODY, pa.array(self._bodies, pa.binary())), self._refused)
        self._bodies, self._refused, self._bytes = [], {}, 0

    def _damaged(self, problem: str) -> EnvironmentProblem:
        name = unquote(urlsplit(self.path).path)
        return EnvironmentProblem(
            f"the file {name} can't be expanded: {problem}", remedy="put a whole one in its place, or an empty one"
        )
