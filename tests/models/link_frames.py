"""What two boxes say to each other, as values and as bytes: another implementation of `docs/reference/link-protocol.md`.

The schema's functions write and read frames; tests compare what they say with this.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any
from uuid import UUID

import numpy as np

from seriatim.box.links import layout
from seriatim.box.links.answers import AnswerSet, FrameRefusal, MessageSteps
from seriatim.box.links.frame import Frame, Head, Rows, check, check_ranges, distinct, heap_parts, is_text
from seriatim.box.links.layout import FrameKind
from seriatim.errors import shown
from seriatim.kernel.streams import OF_DIALOGS, WINDOW, BatchKind
from tests.models import chain

__all__ = ["Batch", "Fetch", "TraceQuestion", "read", "written"]

LONGEST_DESTINATION = 512
LONGEST_ID = 1024
LONGEST_KEY = 1024
#: Of an id space, which has at most 128 characters.
LONGEST_SPACE = 512
#: A stream in a batch. `lacks`: of a broken one, the number above which the receiver lacks messages.
STREAM = np.dtype(
    [
        ("incarnation", ">u8"),
        ("number", ">u8"),
        ("stream_id", "V16"),
        ("kind", ">u4"),
        ("count", ">u4"),
        ("after", ">u8"),
        ("lacks", ">u8"),
        ("chain", "V32"),
        ("destination_length", ">u4"),
        ("key_length", ">u4"),
    ]
)
#: A message, or fragments of one. `part_from`: the offset of the part in its body. `flags`: 1 is "replayed".
MESSAGE = np.dtype(
    [
        ("digest", "V32"),
        ("size", ">u8"),
        ("part_from", ">u8"),
        ("part_length", ">u4"),
        ("id_length", ">u4"),
        ("header_length", ">u4"),
        ("flags", ">u4"),
    ]
)
#: The message of a trace: the box into which it was published first, and the lengths of its id and of its id space there.
TRACED = np.dtype([("box", "V16"), ("id_length", ">u4"), ("space_length", ">u4")])


@dataclass(frozen=True, slots=True)
class Batch:
    """What one box sends to another at once.

    `over`: records `RANGE`, the numbers of streams that are over for the sender. `streams`: records `STREAM`. `destinations`, `keys`: of
    each stream, the name of the queue there and the group. `messages`: records `MESSAGE`, stream after stream, `count` of each.
    `message_ids`, `headers`, `parts`: of each message.
    """

    head: Head
    over: Rows
    streams: Rows
    destinations: list[str]
    keys: list[bytes]
    messages: Rows
    message_ids: list[str]
    headers: list[bytes]
    parts: list[memoryview]

    def to_bytes(self) -> bytes:
        """The batch as a frame.

        Raises:
            LinkProtocolError: it breaks a limit.
        """
        heap: list[bytes | memoryview] = []
        for destination, key in zip(self.destinations, self.keys, strict=True):
            heap += (destination.encode(), key)
        for message_id, header, part in zip(self.message_ids, self.headers, self.parts, strict=True):
            heap += (message_id.encode(), header, part)
        version = 2 if (self.streams["kind"] >= OF_DIALOGS).any() else 1
        return _frame_of(self.head, FrameKind.BATCH, (self.over, self.streams, self.messages), heap, version=version)

    @classmethod
    def read(cls, frame: Frame) -> Batch:
        """The batch of a frame.

        Raises:
            LinkProtocolError: it isn't a batch, or contradicts itself.
        """
        check(frame.kind == FrameKind.BATCH, "a frame that should be a batch is something else")
        check(not frame.most_bytes, "a batch asks for bytes")
        (over, streams, messages), heap = frame.tables(layout.RANGE, STREAM, MESSAGE)
        check_ranges(over)
        check((streams["kind"] < OF_DIALOGS * frame.version).all(), "a stream is of no kind that there is")
        _check_streams(streams, messages)
        _check_messages(streams, messages)
        lengths = _by_row(streams, "destination_length", "key_length")
        lengths += _by_row(messages, "id_length", "header_length", "part_length")
        pieces = heap_parts(heap, lengths)
        named, contents = pieces[: 2 * len(streams)], pieces[2 * len(streams) :]
        destinations = [is_text(name, "the name of a destination") for name in named[::2]]
        keys = [bytes(key) for key in named[1::2]]
        message_ids = [is_text(one, "the id of a message") for one in contents[::3]]
        headers, parts = [bytes(header) for header in contents[1::3]], contents[2::3]
        _check_digests(messages, message_ids, headers, parts)
        return cls(frame.head, over, streams, destinations, keys, messages, message_ids, headers, parts)


def _check_streams(streams: Rows, messages: Rows) -> None:
    after, count, kind = (streams[name].astype(np.int64) for name in ("after", "count", "kind"))
    kind %= OF_DIALOGS
    check(count.sum() == len(messages), f"streams have {count.sum():,} messages, and {len(messages):,} came")
    check((count <= WINDOW).all(), f"a stream has more than {WINDOW:,} messages in a batch")
    check((kind <= max(BatchKind)).all(), "a stream is of no kind that there is")
    check((count[kind != BatchKind.MESSAGES] == 0).all(), "a stream that ends has messages")
    numbers = np.stack([streams[name] for name in ("incarnation", "number")]).astype(np.uint64)
    check(((numbers > 0) & (numbers <= layout.LARGEST_NUMBER)).all(), "a stream has a number that none can have")
    check(
        (streams["after"] + count.astype(np.uint64) <= layout.LARGEST_NUMBER).all(),
        "a message has a number that none can have",
    )
    check(
        (streams["lacks"] <= streams["after"]).all() and (streams["lacks"][kind != BatchKind.END] == 0).all(),
        "a stream lacks more than it had",
    )
    check(distinct(streams, "incarnation", "number"), "a stream is in a batch twice")
    named = streams["destination_length"]
    check(((named > 0) & (named <= LONGEST_DESTINATION)).all(), "the name of a destination is empty or too long")
    check((streams["key_length"] <= LONGEST_KEY).all(), "the key of a group is longer than 1 KiB")
    check((after >= 0).all(), "a stream has a number that none can have")


def _check_messages(streams: Rows, messages: Rows) -> None:
    check((messages["flags"] <= 1).all(), "a message has flags that this version doesn't know")
    ids = messages["id_length"]
    check(((ids > 0) & (ids <= LONGEST_ID)).all(), "the id of a message is empty or longer than 1 KiB")
    check((messages["header_length"] <= layout.LARGEST_HEADER).all(), "a message has a header of more than 1 MiB")
    check((messages["size"] <= layout.LARGEST_BODY).all(), "a message has a body of more than 512 MiB")
    size, begins = (
        messages["size"].astype(np.int64),
        np.minimum(messages["part_from"], layout.LARGEST_NUMBER).astype(np.int64),
    )
    length = messages["part_length"].astype(np.int64)
    ends = begins + length
    check((ends <= size).all(), "a part of a body ends behind the body")
    check((begins % layout.FRAGMENT == 0).all(), "a part of a body doesn't begin with a fragment")
    check(
        ((ends == size) | ((length % layout.FRAGMENT == 0) & (length > 0))).all(),
        "a part of a body ends within a fragment",
    )
    check(((length > 0) | (size == 0)).all(), "a part of a body is empty")
    partial = np.flatnonzero((begins > 0) | (ends < size))
    last = np.cumsum(streams["count"].astype(np.int64)) - 1
    # A part that begins later completes a message that the receiver has begun; it may only be the first. One that ends early: the last.
    first = last - streams["count"].astype(np.int64) + 1
    check(np.isin(np.flatnonzero(begins > 0), first).all(), "fragments of a message don't come first in their stream")
    check(np.isin(np.flatnonzero(ends < size), last).all(), "fragments of a message have others behind them")
    check(len(partial) <= 2 * len(streams), "more messages than streams are in fragments")


def _check_digests(messages: Rows, message_ids: list[str], headers: list[bytes], parts: list[memoryview]) -> None:
    whole = (messages["part_from"] == 0) & (messages["part_length"] == messages["size"])
    told = messages["digest"]
    for at in np.flatnonzero(whole).tolist():
        same = chain.content_digest(headers[at], parts[at]) == told[at].tobytes()
        check(same, f"the content of message {shown(message_ids[at])} isn't what its digest says")


def _by_row(rows: Rows, *names: str) -> list[int]:
    """Columns as one list, a row after another."""
    lengths: list[int] = np.stack([rows[name] for name in names], axis=1).ravel().tolist()
    return lengths


@dataclass(frozen=True, slots=True)
class Fetch:
    """A request for what waits at the other box: at most so many bytes, 0 for all that a frame holds."""

    head: Head
    most_bytes: int = 0

    def to_bytes(self) -> bytes:
        """The request as a frame."""
        return _frame_of(self.head, FrameKind.FETCH, most_bytes=self.most_bytes)

    @classmethod
    def read(cls, frame: Frame) -> Fetch:
        """The request of a frame.

        Raises:
            LinkProtocolError: it is none.
        """
        check(frame.kind == FrameKind.FETCH, "a frame that should be a request is something else")
        check(not any(frame.counts) and not frame.content, "a request has content")
        return cls(frame.head, frame.most_bytes)


@dataclass(frozen=True, slots=True)
class TraceQuestion:
    """The question what became of a message: the box into which it was published first, its id, and its id space there."""

    head: Head
    box: UUID
    message_id: str
    id_space: str = ""

    def to_bytes(self) -> bytes:
        """The question as a frame."""
        texts = [self.message_id.encode(), self.id_space.encode()]
        asked = _rows_of(TRACED, [(self.box.bytes, *map(len, texts))])
        return _frame_of(self.head, FrameKind.TRACE, (_rows_of(layout.RANGE, []), asked), texts)

    @classmethod
    def read(cls, frame: Frame) -> TraceQuestion:
        """The question of a frame.

        Raises:
            LinkProtocolError: it is none.
        """
        check(frame.kind == FrameKind.TRACE, "a frame that should ask for a trace is something else")
        check(frame.counts == (0, 1, 0) and not frame.most_bytes, "a question has other records than one")
        (_, asked, _), heap = frame.tables(layout.RANGE, TRACED, layout.HIGHEST)
        lengths = [int(asked[name][0]) for name in ("id_length", "space_length")]
        check(
            1 <= lengths[0] <= LONGEST_ID and lengths[1] <= LONGEST_SPACE,
            "an id or an id space has a length that none can have",
        )
        message_id, id_space = (is_text(piece, "an id") for piece in heap_parts(heap, lengths))
        return cls(frame.head, UUID(bytes=asked["box"][0].tobytes()), message_id, id_space)


#: Every value that a frame can be.
Said = Batch | AnswerSet | Fetch | FrameRefusal | TraceQuestion | MessageSteps
_READERS: dict[FrameKind, Any] = {
    FrameKind.BATCH: Batch,
    FrameKind.ANSWERS: AnswerSet,
    FrameKind.FETCH: Fetch,
    FrameKind.REFUSAL: FrameRefusal,
    FrameKind.TRACE: TraceQuestion,
    FrameKind.STEPS: MessageSteps,
}


def read(data: bytes) -> Said:
    """The value of a frame.

    Raises:
        LinkProtocolError: it is none.
    """
    frame = Frame.read(data)
    said: Said = _READERS[frame.kind].read(frame)
    return said


def written(said: Said) -> bytes:
    """A value as a frame.

    Raises:
        LinkProtocolError: it breaks a limit.
    """
    match said:
        case AnswerSet():
            tables = (said.lost, said.answers, said.highest)
            return _frame_of(said.head, FrameKind.ANSWERS, tables, list(map(str.encode, said.reasons)))
        case FrameRefusal():
            text = said.reason.encode()[: layout.LONGEST_TEXT].decode(errors="ignore")
            return _frame_of(said.head, FrameKind.REFUSAL, heap=[text.encode()])
        case MessageSteps():
            return _frame_of(said.head, FrameKind.STEPS, heap=[said.content])
    return said.to_bytes()


def _frame_of(
    head: Head,
    kind: FrameKind,
    tables: Sequence[Rows] = (),
    heap: Sequence[bytes | memoryview] = (),
    most_bytes: int = 0,
    version: int = 1,
) -> bytes:
    """The bytes of a frame.

    Raises:
        LinkProtocolError: they are more than a frame may have.
    """
    content = [*(table.tobytes() for table in tables), *heap]
    length = layout.HEAD.itemsize + sum(map(len, content)) + layout.TRAILER
    check(length <= layout.LARGEST_FRAME, f"a frame of {length:,} bytes is larger than 16 MiB")
    counts = (*map(len, tables), 0, 0, 0)[:3]
    boxes = (head.sender.bytes, head.receiver.bytes)
    first = np.array(
        (version, kind, *head.versions, length, *boxes, head.incarnation, *counts, most_bytes), layout.HEAD
    )
    joined = b"".join([first.tobytes(), *content])
    return joined + sha256(joined).digest()


def _rows_of(kind: np.dtype[Any], rows: Sequence[tuple[Any, ...]]) -> Rows:
    """Records from tuples, in the order of their fields."""
    return np.array(list(rows), kind)
