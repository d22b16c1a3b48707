"""The bodies that a bucket holds, in chunks that are written once.

A held message is named by a `ref`: chunk and row. The held messages of a batch are one new chunk; older chunks are not
rewritten, so a long backlog costs nothing while it waits. Empty chunks are deleted, chunks of which little
is left are rewritten, and small neighbours are merged, so their number grows with the logarithm of the backlog.

A message that several queues hold has a ref in each of them, and one body: then a column of the packet says for each body which rows of the
chunk have it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from seriatim.kernel.values.columns import Ints
from seriatim.spark.state.packets import from_bytes, to_bytes

_ROW_BITS = 32
#: The column of a packet with the rows of each body.
_ROWS = "__sq_rows"
#: A chunk of which less than a quarter is left is written anew.
_SPARSE = 4
#: Chunks up to this many rows are merged with the next one.
_SMALL = 4096


def chunk_of(ref: Ints) -> Ints:
    return ref >> _ROW_BITS


def row_of(ref: Ints) -> Ints:
    return ref & (2**_ROW_BITS - 1)


def first_ref(chunk: int) -> int:
    return chunk << _ROW_BITS


class Chunks(Protocol):
    def get(self, chunk: int) -> bytes:
        """A chunk's packet."""

    def put(self, chunk: int, packet: bytes) -> None:
        """Store a packet."""

    def delete(self, chunk: int) -> None:
        """Delete a packet."""


@dataclass(slots=True)
class MemoryChunks:
    packets: dict[int, bytes]

    def get(self, chunk: int) -> bytes:
        return self.packets[chunk]

    def put(self, chunk: int, packet: bytes) -> None:
        self.packets[chunk] = packet

    def delete(self, chunk: int) -> None:
        del self.packets[chunk]


def places_in(packet: pa.Table) -> tuple[pa.Table, Ints | None]:
    """Return the bodies in a chunk's packet, and for each row of the chunk its body; None: each has its own, in order."""
    if _ROWS not in packet.column_names:
        return packet, None
    lists = packet.column(_ROWS).combine_chunks()
    rows = pc.list_flatten(lists).to_numpy()
    places = np.empty(len(rows), np.int64)
    places[rows] = pc.list_parent_indices(lists).to_numpy()
    return packet.drop_columns([_ROWS]), places


def part_of(packet: bytes, rows: Ints) -> bytes:
    """A chunk's packet with some of its rows, ascending, which become rows 0, 1, 2 …"""
    bodies, places = places_in(from_bytes(packet))
    alone, body_rows = np.unique(rows if places is None else places[rows], return_inverse=True)
    table = bodies.take(pa.array(alone))
    if len(alone) < len(rows):
        table = table.append_column(_ROWS, _rows_of(body_rows, len(alone)))
    return to_bytes(table).to_pybytes()


class Bodies:
    """The chunks of one bucket during one call; a chunk is read at most once."""

    def __init__(self, chunks: Chunks, rows: dict[int, int], schema: pa.Schema) -> None:
        self._chunks = chunks
        #: The number of rows of each existing chunk; changed in place.
        self._rows = rows
        self._schema = schema
        self._read: dict[int, tuple[pa.Table, Ints | None]] = {}

    def table(self, chunk: int) -> pa.Table:
        """The bodies of a chunk, with the present columns: new columns are null."""
        return self._opened(chunk)[0]

    def places(self, chunk: int, rows: Ints) -> Ints:
        """The rows in `table` of a chunk's rows: messages that several queues hold share a body."""
        places = self._opened(chunk)[1]
        return rows if places is None else places[rows]

    def _opened(self, chunk: int) -> tuple[pa.Table, Ints | None]:
        if chunk not in self._read:
            bodies, places = places_in(from_bytes(self._chunks.get(chunk)))
            self._read[chunk] = _conform(bodies, self._schema), places
        return self._read[chunk]

    def keep(
        self,
        chunk: int,
        arrived: Callable[[Ints], tuple[pa.Table, Ints]],
        refs: Ints,
        renumber: Callable[[Ints, Ints], None],
    ) -> None:
        """Store the messages that are held now, and delete all others."""
        refs = np.sort(refs)
        ids, counts = np.unique(chunk_of(refs), return_counts=True)
        living = dict(zip(ids.tolist(), counts.tolist(), strict=True))
        for ref in set(self._rows) - set(living):
            self._chunks.delete(ref)
            del self._rows[ref]
        parts: list[_HeldPart] = []
        if chunk in living:
            own = refs[chunk_of(refs) == chunk]
            parts = [_HeldPart(own, *arrived(row_of(own)))]
            parts = self._absorb(parts, sorted(set(living) - {chunk}), refs, living)
            self._write(chunk, parts, renumber)
        for other in [other for other in self._rows if other != chunk and other in living]:
            if living[other] * _SPARSE < self._rows[other]:
                self._write(other, [self._part(other, refs)], renumber)

    def _part(self, chunk: int, refs: Ints) -> _HeldPart:
        own = refs[chunk_of(refs) == chunk]
        bodies, places = np.unique(self.places(chunk, row_of(own)), return_inverse=True)
        return _HeldPart(own, self.table(chunk).take(pa.array(bodies)), places)

    def _absorb(self, parts: list[_HeldPart], older: list[int], refs: Ints, living: dict[int, int]) -> list[_HeldPart]:
        """Merge small neighbours, as long as they aren't larger than the chunk so far."""
        total = len(parts[0].refs)
        while older and living[older[-1]] <= total and total + living[older[-1]] <= _SMALL:
            other = older.pop()
            parts.insert(0, self._part(other, refs))
            total += len(parts[0].refs)
            self._chunks.delete(other)
            del self._rows[other]
        return parts

    def _write(self, chunk: int, parts: list[_HeldPart], renumber: Callable[[Ints, Ints], None]) -> None:
        table = pa.concat_tables([part.bodies for part in parts])
        before = np.cumsum([0, *(part.bodies.num_rows for part in parts)])
        places = np.concatenate([part.places + start for part, start in zip(parts, before[:-1], strict=True)])
        if table.num_rows < len(places):
            table = table.append_column(_ROWS, _rows_of(places, table.num_rows))
        self._chunks.put(chunk, to_bytes(table).to_pybytes())
        old = np.concatenate([part.refs for part in parts])
        self._rows[chunk] = len(old)
        renumber(old, first_ref(chunk) + np.arange(len(old)))


@dataclass(frozen=True, slots=True)
class _HeldPart:
    """Held messages: their refs, ascending, bodies, and for each ref the row of its body."""

    refs: Ints
    bodies: pa.Table
    places: Ints


def _rows_of(places: Ints, bodies: int) -> pa.ListArray:
    """For each body the rows of the chunk that have it."""
    ends = np.append(0, np.cumsum(np.bincount(places, minlength=bodies))).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(ends), pa.array(np.argsort(places, kind="stable").astype(np.int32)))


def _conform(table: pa.Table, schema: pa.Schema) -> pa.Table:
    if table.schema.equals(schema):
        return table
    columns = [
        _cast(table.column(f.name), f.type) if f.name in table.column_names else pa.nulls(table.num_rows, f.type)
        for f in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _cast(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Return a property with its present type; a value that doesn't fit the type is null. The body keeps the original."""
    try:
        return column.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        plain = column.combine_chunks()
        inside = _cast_inside(plain, kind)
        if inside is not None:
            return pa.chunked_array([inside])
        whole = plain.dictionary_encode()
        fits = [_fits(value, kind) for value in whole.dictionary]
        values = pa.concat_arrays(
            [each if each is not None else pa.nulls(1, kind) for each in fits] or [pa.nulls(0, kind)]
        )
        return pa.chunked_array([values.take(whole.indices)])


def _cast_inside(column: pa.Array, kind: pa.DataType) -> pa.Array | None:
    """Return the lists or structs of a column with the values in them cast one by one; None: it has neither."""

    def cast(values: pa.Array, to: pa.DataType) -> pa.Array:
        return _cast(pa.chunked_array([values]), to).combine_chunks()

    is_null = column.is_null()
    if pa.types.is_struct(kind) and pa.types.is_struct(column.type):
        old = {field.name: column.field(field.name) for field in column.type}
        fields = [
            cast(old[field.name], field.type) if field.name in old else pa.nulls(len(column), field.type)
            for field in kind
        ]
        return pa.StructArray.from_arrays(fields, fields=list(kind), mask=is_null)
    for is_list, lists in ((pa.types.is_list, pa.ListArray), (pa.types.is_large_list, pa.LargeListArray)):
        if is_list(kind) and is_list(column.type):
            return lists.from_arrays(column.offsets, cast(column.values, kind.value_type), kind, mask=is_null)
    return None


def _fits(value: pa.Scalar, kind: pa.DataType) -> pa.Array | None:
    try:
        return pa.array([value.as_py()], value.type).cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
