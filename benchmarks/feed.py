"""The feeds that benchmarks read: Parquet files of messages with random bodies, made once and kept.

``SERIATIM_BENCH_SHARE=0.01`` takes a hundredth of the messages, to see that a benchmark runs; its ratios say nothing then.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["SCHEMA", "SHARE", "Feed", "Part", "make_feed", "shared"]

#: The share of the messages that is taken.
SHARE = float(os.environ.get("SERIATIM_BENCH_SHARE", "1"))

SCHEMA = "customer string, version long, body binary"


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of a feed: `batches` times `size` messages over `groups` groups whose names begin with `prefix`.

    `displaced`: how far a message may be from its place, as a share of the part. `first`: the first number of a group;
    above 1 its groups wait behind a hole that nobody fills. `lost`: the share of the messages that never comes.
    """

    batches: int
    size: int
    groups: int
    prefix: str = "c"
    displaced: float = 0.02
    first: int = 1
    lost: float = 0.0


@dataclass(frozen=True, slots=True)
class Feed:
    """A stream of parts; `files` files a batch, bodies of `body` random bytes."""

    name: str
    parts: tuple[Part, ...]
    files: int = 4
    body: int = 400
    seed: int = 1

    @property
    def batches(self) -> int:
        """How many micro-batches it makes."""
        return sum(part.batches for part in self.parts)


def shared(many: int) -> int:
    """So many of something as the run takes."""
    return max(1, round(many * SHARE))


def make_feed(feed: Feed, root: Path) -> Path:
    """The folder with the feed's files, in order of their times; made if it isn't there."""
    folder = root / (feed.name if SHARE == 1 else f"{feed.name}-{SHARE:g}")
    if (folder / "complete").exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(feed.seed)
    number = 0
    for whole in feed.parts:
        part = replace(whole, size=shared(whole.size), groups=shared(whole.groups))
        group, version = _messages(part, random)
        each = part.size // feed.files
        for start in range(0, part.batches * part.size, each):
            kept = start + np.flatnonzero(random.random(each) >= part.lost) if part.lost else slice(start, start + each)
            _write(folder, number, part.prefix, group[kept], version[kept], feed, random)
            number += 1
    (folder / "complete").touch()
    return folder


def _messages(part: Part, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Group and number of each message, in the order in which they come."""
    total = part.batches * part.size
    group = np.arange(total) % part.groups if total <= part.groups else random.integers(0, part.groups, total)
    by_group = np.argsort(group, kind="stable")
    starts = np.searchsorted(group[by_group], np.arange(part.groups))
    version = np.empty(total, np.int64)
    version[by_group] = np.arange(total) - starts[group[by_group]] + part.first
    order = np.argsort(np.arange(total) + random.uniform(0, part.displaced * total, total), kind="stable")
    return group[order], version[order]


def _write(
    folder: Path,
    number: int,
    prefix: str,
    group: np.ndarray,
    version: np.ndarray,
    feed: Feed,
    random: np.random.Generator,
) -> None:
    rows = len(group)
    bodies = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(feed.body), rows, [None, pa.py_buffer(random.bytes(feed.body * rows))]
    ).cast(pa.binary())
    names = pa.array([f"{prefix}{g:09d}" for g in group.tolist()])
    table = pa.table({"customer": names, "version": version, "body": bodies})
    path = folder / f"part-{number:05d}.parquet"
    pq.write_table(table, path, compression="none", use_dictionary=False)
    os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))  # Spark takes files in order of their times
