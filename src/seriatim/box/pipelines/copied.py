"""Rows of PostgreSQL's binary COPY as Arrow's columns, and back, without an object for each value."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from psycopg.abc import Buffer

#: The signature, no flags, no extension; and what follows the last row.
BEGIN, END = b"PGCOPY\n\xff\r\n\0" + bytes(8), b"\xff\xff"

#: A field of all rows: the same bytes in each (None: NULL), whole numbers of 4 or 8 bytes, or an array of text, bytes or int64.
Field: TypeAlias = bytes | NDArray[np.int32] | NDArray[np.int64] | pa.Array | None
_Bytes: TypeAlias = NDArray[np.uint8]
_NULL = b"\xff\xff\xff\xff"
#: PostgreSQL counts from the year 2000. Microseconds.
_YEAR_2000 = 946_684_800_000_000


def written(rows: int, fields: Sequence[Field]) -> memoryview:
    """Some rows for COPY FROM, without `BEGIN` and `END`."""
    pieces: list[pa.Array] = []
    fixed: list[bytes | _Bytes] = [len(fields).to_bytes(2, "big")]
    for field in fields:
        if field is None:
            fixed.append(_NULL)
        elif isinstance(field, bytes):
            fixed += [len(field).to_bytes(4, "big"), field]
        elif isinstance(field, np.ndarray):
            fixed += [field.itemsize.to_bytes(4, "big"), _big(field)]
        else:
            values = _numbers(field) if pa.types.is_int64(field.type) else field.cast(pa.large_binary())
            sizes = pc.fill_null(pc.binary_length(values), -1).to_numpy()
            pieces += [_block(rows, [*fixed, _big(sizes.astype(np.int32))]), pc.fill_null(values, b"")]
            fixed = []
    if fixed:
        pieces.append(_block(rows, fixed))
    joined = pc.binary_join_element_wise(*pieces, pa.scalar(b"", pa.large_binary()))
    _, offsets, data = joined.buffers()
    ends = np.frombuffer(offsets, np.int64)
    return memoryview(data)[ends[joined.offset] : ends[joined.offset + rows]]


def rows_of(portions: Iterable[Sequence[Buffer]]) -> Iterator[Sequence[Buffer]]:
    """The rows of COPY TO without `BEGIN` and `END`: PostgreSQL sends each row by itself, the first behind `BEGIN`."""
    before = len(BEGIN)
    # To the end, also without rows: COPY is over then.
    for rows in portions:
        found = [bytes(rows[0])[before:], *rows[1:]] if before else rows
        before = 0
        yield found[:-1] if found[-1] == END else found


def columns_of(rows: Sequence[Buffer], kinds: Mapping[str, pa.DataType]) -> dict[str, pa.Array]:
    """The columns of some rows: text, bytes, int64, booleans and timestamps."""
    data = np.frombuffer(b"".join(rows), np.uint8)
    ends = np.cumsum(np.fromiter(map(len, rows), np.int64, len(rows)))
    at = np.concatenate([[0], ends[:-1]]) + 2
    columns = {}
    for name, kind in kinds.items():
        sizes = _read(data, at, ">i4")
        known, at = sizes >= 0, at + 4
        sizes[~known] = 0
        columns[name] = _column(data, at, sizes, known, kind)
        at += sizes
    return columns


def _column(data: _Bytes, at: NDArray[Any], sizes: NDArray[Any], known: NDArray[Any], kind: pa.DataType) -> pa.Array:
    is_text = pa.types.is_string(kind)
    if is_text or pa.types.is_binary(kind):
        # Values with what lies between them, of which only they are taken.
        offsets = np.stack([at, at + sizes], axis=1).ravel()
        of = pa.large_string() if is_text else pa.large_binary()
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
        between = pa.Array.from_buffers(of, len(offsets) - 1, buffers)
        places = np.arange(0, len(offsets), 2)
        return between.take(pa.array(places, mask=~known)).cast(kind)
    if pa.types.is_boolean(kind):
        return pa.array(data[np.where(known, at, 0)] != 0, mask=~known)
    numbers = _read(data, np.where(known, at, 0), ">i8")
    if pa.types.is_timestamp(kind):
        numbers += _YEAR_2000
    return pa.array(numbers, pa.int64(), mask=~known).cast(kind)


def _read(data: _Bytes, at: NDArray[Any], kind: str) -> NDArray[Any]:
    """The numbers that begin at some bytes."""
    beginning_anywhere = np.ndarray(len(data) - np.dtype(kind).itemsize + 1, kind, data, strides=(1,))
    return beginning_anywhere[at].astype(np.int64)


def _big(numbers: NDArray[Any]) -> _Bytes:
    """Numbers as the bytes of each, the highest first."""
    return numbers.astype(numbers.dtype.newbyteorder(">")).view(np.uint8).reshape(len(numbers), numbers.itemsize)


def _numbers(values: pa.Array) -> pa.Array:
    """Whole numbers, some of them NULL, as bytes."""
    known = np.asarray(values.is_valid().to_numpy(zero_copy_only=False), np.bool_)
    offsets = np.concatenate([[0], np.cumsum(np.where(known, 8, 0))])
    bits = None if known.all() else pa.py_buffer(np.packbits(known, bitorder="little"))
    data = pa.py_buffer(_big(values.drop_null().to_numpy()))
    return pa.Array.from_buffers(pa.large_binary(), len(values), [bits, pa.py_buffer(offsets), data])


def _block(rows: int, parts: Sequence[bytes | _Bytes]) -> pa.Array:
    """Fields of fixed size, beside one another."""
    width = sum(len(part) if isinstance(part, bytes) else part.shape[1] for part in parts)
    block, at = np.empty((rows, width), np.uint8), 0
    for part in parts:
        size = len(part) if isinstance(part, bytes) else part.shape[1]
        block[:, at : at + size] = np.frombuffer(part, np.uint8) if isinstance(part, bytes) else part
        at += size
    offsets = np.arange(0, (rows + 1) * width, max(width, 1), dtype=np.int64)[: rows + 1]
    return pa.Array.from_buffers(pa.large_binary(), rows, [None, pa.py_buffer(offsets), pa.py_buffer(block)])
