"""Versions 1 and 2 of the protocol of links: the records that this process reads, field by field, and its limits.

`docs/reference/link-protocol.md` has all of it; the records of a batch and of a trace are read by the schema's functions alone.
All that two boxes say to each other is one frame: a head, tables of records of fixed sizes, a heap of bytes whose lengths the records tell,
in their order, and a SHA-256 of all that. So a reader in any language, SQL too, finds each field by its place, and no byte can change
unnoticed.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np

#: The versions that can be read, lowest and highest. A frame with records of dialogs is of version 2, any other one of version 1.
VERSIONS = (1, 2)

#: Bytes of the checksum at the end of a frame.
TRAILER = 32
#: The bytes of a fragment of a body; the last one may be shorter.
FRAGMENT = 1024 * 1024
LARGEST_FRAME = 16 * 1024 * 1024
#: The largest body that a message box takes.
LARGEST_BODY = 512 * 1024 * 1024
LARGEST_HEADER = 1024 * 1024
LONGEST_TEXT = 1000
#: The most bytes of the steps of one message.
LARGEST_STEPS = 1024 * 1024
MOST_STREAMS = 10_000
MOST_RANGES = 10_000
#: The highest number of a stream, of a message, of an incarnation.
LARGEST_NUMBER = 2**53 - 1


class FrameKind(IntEnum):
    BATCH = 1
    ANSWERS = 2
    FETCH = 3
    REFUSAL = 4
    TRACE = 5
    STEPS = 6


#: The beginning of each frame. The first four fields are the same in every version. `ranges`: streams that are over, or lost. `rows`:
#: records of the second table; `messages`: of the third.
HEAD = np.dtype(
    [
        ("version", "u1"),
        ("kind", "u1"),
        ("lowest", "u1"),
        ("highest", "u1"),
        ("length", ">u4"),
        ("sender", "V16"),
        ("receiver", "V16"),
        ("incarnation", ">u8"),
        ("ranges", ">u4"),
        ("rows", ">u4"),
        ("messages", ">u4"),
        ("most_bytes", ">u4"),
    ]
)
#: Numbers of streams, of one incarnation of the box that has opened them.
RANGE = np.dtype([("incarnation", ">u8"), ("first", ">u8"), ("last", ">u8")])
#: An answer for one stream. `fragment`: of message `received + 1`, the first one missing. `text_length`: of the reason.
ANSWER = np.dtype(
    [
        ("incarnation", ">u8"),
        ("number", ">u8"),
        ("answer", ">u4"),
        ("wait_ms", ">u4"),
        ("received", ">u8"),
        ("fragment", ">u4"),
        ("text_length", ">u4"),
        ("chain", "V32"),
    ]
)
#: The highest stream of an incarnation that a receiver has known, and its first chain.
HIGHEST = np.dtype([("incarnation", ">u8"), ("number", ">u8"), ("begins", "V32")])
