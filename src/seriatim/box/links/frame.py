"""Frames: the common form of all bytes between two boxes.

A frame is read strictly: with a byte more, less or changed, nothing of it is used.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from itertools import accumulate, pairwise
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from seriatim.box.links import layout
from seriatim.box.links.layout import FrameKind
from seriatim.errors import LinkProtocolError

#: Records of a table.
Rows = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Head:
    """The sender and the receiver: ids of boxes, and the sender's incarnation. `versions`: the lowest and highest that it can read."""

    sender: UUID
    receiver: UUID
    incarnation: int
    versions: tuple[int, int] = layout.VERSIONS


@dataclass(frozen=True, slots=True)
class Frame:
    """A complete frame: its head, and the bytes of its tables and its heap."""

    version: int
    head: Head
    kind: FrameKind
    counts: tuple[int, int, int]
    most_bytes: int
    content: memoryview

    @classmethod
    def read(cls, data: bytes) -> Frame:
        check(len(data) >= 4, f"{len(data)} bytes are no frame")
        version, _, lowest, highest = data[:4]
        if not layout.VERSIONS[0] <= version <= layout.VERSIONS[1]:
            ours = " to ".join(map(str, layout.VERSIONS))
            raise LinkProtocolError(
                f"the frame has version {version} (its box knows {lowest} to {highest}), and this one knows {ours}",
                where="link",
                remedy="bring the older of the two boxes up to date",
            )
        size = len(data) - layout.TRAILER
        check(layout.HEAD.itemsize <= size, f"{len(data)} bytes are no frame")
        check(len(data) <= layout.LARGEST_FRAME, f"a frame of {len(data):,} bytes is larger than 16 MiB")
        head = np.frombuffer(data, layout.HEAD, 1)[0]
        check(int(head["length"]) == len(data), f"{len(data):,} bytes came of {int(head['length']):,}")
        view = memoryview(data)
        check(sha256(view[:size]).digest() == view[size:], "the checksum of a frame is wrong")
        check(int(head["kind"]) in set(FrameKind), f"{int(head['kind'])} is no kind of frame")
        check(
            0 < lowest <= version <= highest,
            f"a frame of version {version} comes from a box that knows {lowest} to {highest}",
        )
        incarnation = int(head["incarnation"])
        check(0 < incarnation <= layout.LARGEST_NUMBER, f"{incarnation} is no incarnation")
        ranges, rows, messages = (int(head[name]) for name in ("ranges", "rows", "messages"))
        check(ranges <= layout.MOST_RANGES, f"{ranges:,} ranges are more than {layout.MOST_RANGES:,}")
        check(rows <= layout.MOST_STREAMS, f"{rows:,} streams are more than {layout.MOST_STREAMS:,}")
        sender, receiver = (UUID(bytes=head[name].tobytes()) for name in ("sender", "receiver"))
        return cls(
            version,
            Head(sender, receiver, incarnation, (lowest, highest)),
            FrameKind(int(head["kind"])),
            (ranges, rows, messages),
            int(head["most_bytes"]),
            view[layout.HEAD.itemsize : size],
        )

    def tables(self, *kinds: np.dtype[Any]) -> tuple[list[Rows], memoryview]:
        """Return the tables, one after another, and the heap after them."""
        ends = list(accumulate((n * kind.itemsize for n, kind in zip(self.counts, kinds, strict=True)), initial=0))
        check(ends[-1] <= len(self.content), "the tables of a frame are longer than the frame")
        tables = [
            np.frombuffer(self.content[begin:end], kind)
            for kind, (begin, end) in zip(kinds, pairwise(ends), strict=True)
        ]
        return tables, self.content[ends[-1] :]


def heap_parts(heap: memoryview, lengths: list[int]) -> list[memoryview]:
    """Cut the heap into pieces of these lengths, which must use all of it."""
    ends = list(accumulate(lengths, initial=0))
    check(ends[-1] == len(heap), f"the heap of a frame has {len(heap):,} bytes, and its records tell of {ends[-1]:,}")
    return [heap[begin:end] for begin, end in pairwise(ends)]


def distinct(rows: Rows, *names: str) -> bool:
    """Return whether no two records are equal in these fields."""
    return len(np.unique(rows[list(names)])) == len(rows) if len(rows) else True


def is_text(piece: memoryview, noun: str) -> str:
    try:
        return str(piece, "utf-8")
    except UnicodeDecodeError as error:
        raise LinkProtocolError(
            f"{noun} is no UTF-8", where="link", remedy="look at the other box and its version"
        ) from error


def check_ranges(ranges: Rows) -> None:
    """Refuse invalid ranges: each must go from a number to one that isn't lower, ascending, with a gap between any two."""
    incarnation, first, last = (ranges[name].astype(np.int64) for name in layout.RANGE.names or ())
    in_limits = (incarnation > 0) & (first > 0) & (first <= last) & (last <= layout.LARGEST_NUMBER)
    check(in_limits.all(), "a range of streams has numbers that no stream can have")
    later = np.diff(incarnation)
    ascends = (later > 0) | ((later == 0) & (first[1:] > last[:-1] + 1))
    check(ascends.all(), "ranges of streams overlap, or aren't in order")


def check(holds: object, otherwise: str) -> None:
    if not holds:
        raise LinkProtocolError(
            otherwise,
            where="link",
            remedy="nothing of it was used; if it comes again, look at the other box and its version",
        )
