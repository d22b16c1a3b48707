"""The state of buckets that a move has written, until a batch reads it: a file for each bucket, in a folder of the checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa

from seriatim.errors import CheckpointMismatch
from seriatim.spark.state.checkpoint_files import write_synced
from seriatim.spark.state.packets import from_bytes, to_bytes

#: The number of the index among the chunks.
INDEX = -1
_SCHEMA = pa.schema([("chunk", pa.int64()), ("packet", pa.large_binary())])


def write_moved(folder: Path, bucket: int, packets: Mapping[int, bytes]) -> None:
    """Write the state of a bucket: its chunks by their numbers, and its index under `INDEX`."""
    columns = [pa.array(list(packets), pa.int64()), pa.array(list(packets.values()), pa.large_binary())]
    write_synced(_file(folder, bucket), to_bytes(pa.Table.from_arrays(columns, schema=_SCHEMA)).to_pybytes())


def read_moved(folder: Path, bucket: int) -> dict[int, bytes]:
    try:
        state = from_bytes(_file(folder, bucket).read_bytes())
    except FileNotFoundError as error:
        if folder.is_dir():
            return {}
        raise CheckpointMismatch(
            "the state that was moved is gone", where=str(folder), remedy="restore the checkpoint from a backup"
        ) from error
    return dict(zip(state.column("chunk").to_pylist(), state.column("packet").to_pylist(), strict=True))


def _file(folder: Path, bucket: int) -> Path:
    return folder / f"{bucket}.arrow"
