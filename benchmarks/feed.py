"""The feeds that benchmarks read: Parquet files of messages with random bodies, made once and kept."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["Feed", "make_feed"]

SCHEMA = "customer string, version long, body binary"


@dataclass(frozen=True, slots=True)
class Feed:
    """A stream of `batches` × `size` messages over `groups` groups.

    `displaced` is how far a message may be from its place, as a share of the stream; `body` bytes of random body;
    `files` files a batch; `behind_hole`: all messages of one group, whose number 1 never comes, `first` in the stream.
    """

    name: str
    batches: int
    size: int
    groups: int
    displaced: float = 0.02
    body: int = 400
    files: int = 4
    seed: int = 1
    prefix: str = "c"


def make_feed(feed: Feed, root: Path) -> Path:
    """The folder with the feed's files, in the order of their names; made if it isn't there."""
    folder = root / feed.name
    if (folder / "complete").exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(feed.seed)
    total = feed.batches * feed.size
    group = random.integers(0, feed.groups, total)
    by_group = np.argsort(group, kind="stable")
    starts = np.searchsorted(group[by_group], np.arange(feed.groups))
    version = np.empty(total, np.int64)
    version[by_group] = np.arange(total) - starts[group[by_group]] + 1
    order = np.argsort(np.arange(total) + random.uniform(0, feed.displaced * total, total), kind="stable")
    each = feed.size // feed.files
    for number, start in enumerate(range(0, total, each)):
        rows = order[start : start + each]
        names = pa.array([f"{feed.prefix}{g:09d}" for g in group[rows]])
        bodies = pa.FixedSizeBinaryArray.from_buffers(
            pa.binary(feed.body), len(rows), [None, pa.py_buffer(random.bytes(feed.body * len(rows)))]
        ).cast(pa.binary())
        table = pa.table({"customer": names, "version": pa.array(version[rows]), "body": bodies})
        pq.write_table(table, folder / f"part-{number:05d}.parquet", compression="none", use_dictionary=False)
    (folder / "complete").touch()
    return folder
