"""A batch: messages of several streams on their way to the other box, as a value and as bytes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from seriatim.box.links import layout
from seriatim.box.links.frame import Frame, Head, Rows, check, distinct, frame_of, heap_parts
from seriatim.box.links.layout import FrameKind
from seriatim.errors import LinkProtocolError, shown
from seriatim.kernel import chain
from seriatim.kernel.streams import WINDOW, Kind

__all__ = ["Batch", "check_ranges", "is_text"]


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
        return frame_of(self.head, FrameKind.BATCH, (self.over, self.streams, self.messages), heap)

    @classmethod
    def read(cls, frame: Frame) -> Batch:
        """The batch of a frame.

        Raises:
            LinkProtocolError: it isn't a batch, or contradicts itself.
        """
        check(frame.kind == FrameKind.BATCH, "a frame that should be a batch is something else")
        check(not frame.most_bytes, "a batch asks for bytes")
        (over, streams, messages), heap = frame.tables(layout.RANGE, layout.STREAM, layout.MESSAGE)
        check_ranges(over)
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


def is_text(piece: memoryview, what: str) -> str:
    """A piece of the heap as text."""
    try:
        return str(piece, "utf-8")
    except UnicodeDecodeError as error:
        raise LinkProtocolError(
            f"{what} is no UTF-8", where="link", remedy="look at the other box and its version"
        ) from error


def check_ranges(ranges: Rows) -> None:
    """Refuse ranges that aren't: each from a number to one that isn't lower, ascending, with a gap between any two."""
    incarnation, first, last = (ranges[name].astype(np.int64) for name in layout.RANGE.names or ())
    in_limits = (incarnation > 0) & (first > 0) & (first <= last) & (last <= layout.LARGEST_NUMBER)
    check(in_limits.all(), "a range of streams has numbers that no stream can have")
    later = np.diff(incarnation)
    ascends = (later > 0) | ((later == 0) & (first[1:] > last[:-1] + 1))
    check(ascends.all(), "ranges of streams overlap, or aren't in order")


def _check_streams(streams: Rows, messages: Rows) -> None:
    after, count, kind = (streams[name].astype(np.int64) for name in ("after", "count", "kind"))
    check(count.sum() == len(messages), f"streams have {count.sum():,} messages, and {len(messages):,} came")
    check((count <= WINDOW).all(), f"a stream has more than {WINDOW:,} messages in a batch")
    check((kind <= max(Kind)).all(), "a stream is of no kind that there is")
    check((count[kind != Kind.MESSAGES] == 0).all(), "a stream that ends has messages")
    numbers = np.stack([streams[name] for name in ("incarnation", "number")]).astype(np.uint64)
    check(((numbers > 0) & (numbers <= layout.LARGEST_NUMBER)).all(), "a stream has a number that none can have")
    check(
        (streams["after"] + count.astype(np.uint64) <= layout.LARGEST_NUMBER).all(),
        "a message has a number that none can have",
    )
    check(
        (streams["lacks"] <= streams["after"]).all() and (streams["lacks"][kind != Kind.END] == 0).all(),
        "a stream lacks more than it had",
    )
    check(distinct(streams, "incarnation", "number"), "a stream is in a batch twice")
    named = streams["destination_length"]
    check(((named > 0) & (named <= layout.LONGEST_DESTINATION)).all(), "the name of a destination is empty or too long")
    check((streams["key_length"] <= layout.LONGEST_KEY).all(), "the key of a group is longer than 1 KiB")
    check((after >= 0).all(), "a stream has a number that none can have")


def _check_messages(streams: Rows, messages: Rows) -> None:
    check((messages["flags"] <= 1).all(), "a message has flags that this version doesn't know")
    ids = messages["id_length"]
    check(((ids > 0) & (ids <= layout.LONGEST_ID)).all(), "the id of a message is empty or longer than 1 KiB")
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
