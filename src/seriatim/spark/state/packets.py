"""Packets: many rows as one Arrow IPC stream in a binary column.

A stateful operator in Python gets its input row by row; with a packet in each row, thousands of messages cost as much
as one, and every Arrow type is kept. This module owns the format, and knows nothing about order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from seriatim.errors import CheckpointMismatch
from seriatim.spark.session.collector import freeze_loaded
from seriatim.spark.state.checkpoint_files import write_synced

#: The columns between the stages: the bucket, and the packet.
PACKET_SCHEMA = "bucket int, packet binary"

#: A column of lists of structs: the destinations of a message. In a packet it has those of its bucket; if no message has several,
#: their fields are columns.
EACH = "__sq_each"

#: How many bytes of messages are collected before they are divided by bucket.
_GATHER_BYTES = 16 * 2**20
#: How large a batch of output may be: enough to be cheap, little enough to be streamed.
_SLICE_BYTES = 8 * 2**20
#: Text and binary arrays address less than 2 GiB; above this, chunks stay separate.
_ONE_ARRAY = 2**30

#: A function for ``mapInArrow``.
InArrow = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def to_bytes(table: pa.Table | pa.RecordBatch) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write(table)
    return sink.getvalue()


def from_bytes(packet: bytes | pa.Buffer) -> pa.Table:
    return pa.ipc.open_stream(packet).read_all()


def write_bucket(folder: Path, bucket: int, rows: pa.Table) -> None:
    """Write the rows of a bucket into a file of its own in a folder of the checkpoint."""
    write_synced(folder / f"{bucket}.arrow", to_bytes(rows).to_pybytes())


def read_bucket(folder: Path, bucket: int, schema: pa.Schema, gone: str) -> pa.Table:
    """The rows that `write_bucket` has written, if there are any; `gone`: the error where there is no such folder."""
    try:
        return from_bytes((folder / f"{bucket}.arrow").read_bytes())
    except FileNotFoundError as error:
        if folder.is_dir():
            return schema.empty_table()
        raise CheckpointMismatch(gone, where=str(folder), remedy="restore the checkpoint from a backup") from error


def pack_by(column: str, ids: list[int]) -> InArrow:
    """Packets by the number in `column`, which it drops."""

    def pack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        freeze_loaded()  # in a user's session no other code has done it
        gathered: list[pa.RecordBatch] = []
        size = 0
        for batch in batches:
            if not batch.num_rows:
                continue
            gathered.append(batch)
            size += batch.nbytes
            if size >= _GATHER_BYTES:
                yield from _cut(pa.Table.from_batches(gathered), column, ids)
                gathered, size = [], 0
        if gathered:
            yield from _cut(pa.Table.from_batches(gathered), column, ids)

    return pack


def with_witness(pack: InArrow) -> InArrow:
    """The same packets, and one for a witness if there are rows to pack. If the number of buckets changed, a group in another bucket would
    silently begin anew. So one bucket that exists with any number of buckets takes part in every batch, and its state shows how the query
    was started. Its packet is empty.
    """

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        is_more = False
        for packets in pack(batches):
            is_more = True
            yield packets
        if is_more:
            yield one_packet(0, pa.py_buffer(b""))

    return run


def by_bucket(batches: Iterable[pa.RecordBatch]) -> dict[int, list[pa.Table]]:
    tables: dict[int, list[pa.Table]] = defaultdict(list)
    for batch in batches:
        for bucket, packet in zip(batch.column("bucket"), batch.column("packet"), strict=True):
            tables[bucket.as_py()].append(from_bytes(packet.as_buffer()))
    return tables


def _cut(table: pa.Table, column: str, ids: list[int]) -> Iterator[pa.RecordBatch]:
    if EACH in table.column_names:
        yield from _cut_each(table, column, ids)
        return
    number = table.column(column).to_numpy()
    rows = table.drop_columns([column])
    if (number == number[0]).all():
        yield one_packet(ids[number[0]], to_bytes(rows))
        return
    order = np.argsort(number.astype(np.uint16), kind="stable")
    yield from _packets(contiguous(rows).take(pa.array(order)), number[order], ids)


def _cut_each(table: pa.Table, column: str, ids: list[int]) -> Iterator[pa.RecordBatch]:
    """Pack a row once for each bucket; there it has the structs for that bucket, as columns if no row has several."""
    lists = table.column(EACH).combine_chunks()
    rows, each = contiguous(table.drop_columns([EACH])), pa.Table.from_struct_array(pc.list_flatten(lists))
    row = pc.list_parent_indices(lists).to_numpy()
    number = each.column(column).to_numpy()
    each = each.drop_columns([column])
    order = np.argsort(number.astype(np.uint16), kind="stable")
    of, to, each = row[order], number[order], each.take(pa.array(order))
    begins = np.ones(len(order), np.bool_)
    begins[1:] = (of[1:] != of[:-1]) | (to[1:] != to[:-1])
    firsts = np.append(np.flatnonzero(begins), len(order))
    # A message may be repeated for hundreds of buckets.
    at_once = max(1, _GATHER_BYTES * rows.num_rows // max(1, rows.nbytes))
    for start in range(0, len(firsts) - 1, at_once):
        ends = firsts[start : start + at_once + 1]
        columns = rows.take(pa.array(of[ends[:-1]])).columns
        values = each.slice(ends[0], ends[-1] - ends[0])
        if len(ends) - 1 == values.num_rows:
            packed = pa.Table.from_arrays([*columns, *values.columns], schema=pa.schema([*rows.schema, *each.schema]))
        else:
            offsets = pa.array((ends - ends[0]).astype(np.int32))
            several = pa.ListArray.from_arrays(offsets, pa.concat_arrays(values.to_struct_array().chunks))
            packed = pa.Table.from_arrays([*columns, several], names=[*rows.column_names, EACH])
        yield from _packets(packed, to[ends[:-1]], ids)


def opened(packets: list[pa.Table]) -> tuple[pa.Table, pa.Table, np.ndarray | None]:
    if not any(EACH in packet.column_names for packet in packets):
        both = contiguous(pa.concat_tables(packets)) if packets else pa.table({})
        return both, both, None
    lengths, messages, rows, before = [], [], [], 0
    several = next(packet for packet in packets if EACH in packet.column_names)
    whole = [name for name in several.column_names if name != EACH]
    for packet in packets:
        if EACH in packet.column_names:
            lists = packet.column(EACH).combine_chunks()
            lengths.append(pa.Table.from_struct_array(pc.list_flatten(lists)))
            rows.append(before + pc.list_parent_indices(lists).to_numpy())
        else:
            lengths.append(packet.drop_columns(whole))
            rows.append(before + np.arange(packet.num_rows))
        messages.append(packet.select(whole))
        before += packet.num_rows
    return (
        contiguous(pa.concat_tables(lengths)),
        contiguous(pa.concat_tables(messages)),
        np.concatenate(rows).astype(np.int64),
    )


def _packets(sorted_rows: pa.Table, number: np.ndarray, ids: list[int]) -> Iterator[pa.RecordBatch]:
    edges = np.searchsorted(number, np.arange(len(ids) + 1))
    for nth, (start, end) in enumerate(pairwise(edges)):
        if start < end:
            yield one_packet(ids[nth], to_bytes(sorted_rows.slice(start, end - start)))


def contiguous(table: pa.Table) -> pa.Table:
    """Return the same rows in one piece, if they fit: gathering from many pieces is several times slower."""
    return table.combine_chunks() if table.nbytes < _ONE_ARRAY else table


def one_packet(bucket: int, packet: pa.Buffer) -> pa.RecordBatch:
    """A batch of one row around the packet's own memory."""
    ends = pa.array([0, packet.size], pa.int32()).buffers()[1]
    column = pa.Array.from_buffers(pa.binary(), 1, [None, ends, packet])
    return pa.RecordBatch.from_arrays([pa.array([bucket], pa.int32()), column], ["bucket", "packet"])


def slices(table: pa.Table, rows: np.ndarray) -> Iterator[pa.Table]:
    """The picked rows in that order, in portions of a few megabytes."""
    if not len(rows):
        return
    each = max(1, int(_SLICE_BYTES // max(1, table.nbytes // max(1, table.num_rows))))
    for start in range(0, len(rows), each):
        yield table.take(pa.array(rows[start : start + each]))


def unpack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """A function for ``mapInArrow``: the rows of the packets."""
    for batch in batches:
        for packet in batch.column("packet"):
            buffer = packet.as_buffer()
            if buffer is not None:
                yield from pa.ipc.open_stream(buffer)
