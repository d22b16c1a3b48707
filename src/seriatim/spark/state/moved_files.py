"""The state of buckets that a move has written, until a batch reads it: a file for each bucket, in a folder of the checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa

from seriatim.spark.state.packets import read_bucket, write_bucket

#: The number of the index among the chunks.
INDEX = -1
_SCHEMA = pa.schema([("chunk", pa.int64()), ("packet", pa.large_binary())])


def write_moved(folder: Path, bucket: int, packets: Mapping[int, bytes]) -> None:
    """Write the state of a bucket: its chunks by their numbers, and its index under `INDEX`."""
    columns = [pa.array(list(packets), pa.int64()), pa.array(list(packets.values()), pa.large_binary())]
    write_bucket(folder, bucket, pa.Table.from_arrays(columns, schema=_SCHEMA))


def read_moved(folder: Path, bucket: int) -> dict[int, bytes]:
    state = read_bucket(folder, bucket, _SCHEMA, "the state that was moved is gone")
    return dict(zip(state.column("chunk").to_pylist(), state.column("packet").to_pylist(), strict=True))
