"""The formats of rows: which rows are messages, and the readers of their properties.

A row is a line of a text file, a whole file, or the body in a table's row. `promotion.py` and `text_files.py` read a
row; this module handles the rows of a file together: blank rows, and the header of CSV.
"""

from __future__ import annotations

import bz2
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import BinaryIO, Protocol
from urllib.parse import unquote, urlsplit

from pyarrow import fs

from seriatim.pipeline.bodies.json_paths import JsonPaths
from seriatim.pipeline.bodies.property_values import Promoted, Unreadable
from seriatim.pipeline.bodies.xml_paths import XmlPaths
from seriatim.pipeline.declared.promotion import Promotion
from seriatim.spark.receive.promotion import CsvColumns, Returned
from seriatim.spark.receive.row_paths import Columns, RowPaths

#: From a body (None: there is none) and a row's columns to the promoted values; None for a row that is no message (blank, a header).
#: Raises `Unreadable`.
ReadRow = Callable[[bytes | None, Columns], Promoted | None]


@dataclass(frozen=True, slots=True)
class Block:
    """A part of a file that one task reads; it begins at byte `start`, and `path` is a URI."""

    path: str
    start: int


class RowFormat(Protocol):
    def reader(self, block: Block) -> ReadRow:
        """A reader for the rows of a block, one after another from the first."""

    def only(self, promote: tuple[Promotion, ...]) -> RowFormat:
        """The same format, for these properties only."""


@dataclass(frozen=True, slots=True)
class Documents:
    """A document in each row, read by `values`; None: not read at all. In files blank rows are no messages."""

    values: JsonPaths | XmlPaths | Returned | RowPaths | None
    in_files: bool = True

    def reader(self, block: Block) -> ReadRow:
        match self.values:
            case None:
                read: ReadRow = _nothing
            case RowPaths():
                read = self.values.reader()
            case _:
                read = _without_columns(self.values.reader(), len(self.values.promote))
        return (lambda body, columns: read(body, columns) if _is_filled(body) else None) if self.in_files else read

    def only(self, promote: tuple[Promotion, ...]) -> Documents:
        """See `RowFormat`. If there are no properties to find, the rows are not read, so they may have any content."""
        if self.values is None or not promote:
            return replace(self, values=None)
        return replace(self, values=replace(self.values, promote=promote))


@dataclass(frozen=True, slots=True)
class CsvRows:
    """Fields under the file's own header, or under `names` if the files have no header; or lines for a function."""

    columns: CsvColumns | Returned
    names: tuple[str, ...] | None = None
    #: The bytes between two rows of a file.
    separator: bytes = b"\n"

    def reader(self, block: Block) -> ReadRow:
        if self.names is not None:
            read = self._under(self.names)
            return lambda body, _: read(body) if body is not None and _is_filled(body) else None
        return _UnderHeader(self, _first_line(block.path, self.separator) if block.start else None)

    def only(self, promote: tuple[Promotion, ...]) -> CsvRows:
        return replace(self, columns=replace(self.columns, promote=promote))

    def under(self, header: bytes) -> Callable[[bytes], Promoted]:
        """A reader for the lines below a header. Raises `Unreadable`."""
        return self._under(self.columns.header(header) if isinstance(self.columns, CsvColumns) else ())

    def _under(self, names: list[str] | tuple[str, ...]) -> Callable[[bytes], Promoted]:
        return self.columns.reader(names) if isinstance(self.columns, CsvColumns) else self.columns.reader()


class _UnderHeader:
    """Reads the rows of a block; its first row is the header, unless the header is in an earlier block."""

    def __init__(self, rows: CsvRows, header: bytes | None) -> None:
        self._rows = rows
        self._read: Callable[[bytes], Promoted] | None = None
        if header is not None:
            self._begin(header)

    def __call__(self, body: bytes | None, _: Columns) -> Promoted | None:
        if body is None and self._read is None:
            self._read = lambda _: _refuse("the header can't be read: it is too large")
        if body is None or not _is_filled(body):
            return None
        if self._read is None:
            self._begin(body)
            return None
        return self._read(body)

    def _begin(self, header: bytes) -> None:
        try:
            self._read = self._rows.under(header)
        except Unreadable as error:
            reason = f"the header can't be read: {error}"
            self._read = lambda _: _refuse(reason)


def _refuse(reason: str) -> Promoted:
    raise Unreadable(reason)


def _nothing(_: bytes | None, __: Columns) -> Promoted:
    return [], None


def _without_columns(read: Callable[[bytes], Promoted], count: int) -> ReadRow:
    """Reads the bodies; a row without a body has no values, which is no fault."""
    return lambda body, _: ([None] * count, None) if body is None else read(body)


def _is_filled(body: bytes | None) -> bool:
    return body is not None and body != b"" and not body.isspace() and body != b"\xef\xbb\xbf"


def _first_line(path: str, separator: bytes) -> bytes:
    """The first non-blank line of a file whose beginning another task reads."""
    stream: BinaryIO
    if urlsplit(path).scheme in {"", "file"}:
        stream = open(unquote(urlsplit(path).path), "rb")  # noqa: PTH123, SIM115 - a worker's hot path needs no Path
    else:
        filesystem, inner = fs.FileSystem.from_uri(path)
        stream = filesystem.open_input_file(inner)
    with stream:
        # Of the compressed files only these have several blocks.
        text = bz2.BZ2File(stream) if path.endswith(".bz2") else stream
        rest = b""
        while more := text.read(2**16):
            *lines, rest = (rest + more).split(separator)
            if (line := next(filter(_is_filled, lines), None)) is not None:
                return line.rstrip(b"\r\n")
        return rest.rstrip(b"\r\n")
