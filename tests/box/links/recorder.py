"""A second implementation of the protocol of links, made from `docs/reference/link-protocol.md` alone: it writes frames, and reads them as tuples.

It imports nothing of seriatim, so that it tells whether the page is enough.
"""

from __future__ import annotations

import json
import struct
from hashlib import sha256
from typing import Any

HEAD = struct.Struct(">BBBBI16s16sQIIII")
RANGE = struct.Struct(">QQQ")
STREAM = struct.Struct(">QQ16sIIQQ32sII")
MESSAGE = struct.Struct(">32sQQIIII")
ANSWER = struct.Struct(">QQIIQII32s")
HIGHEST = struct.Struct(">QQ32s")
TRACED = struct.Struct(">16sII")
BATCH, ANSWERS, FETCH, REFUSAL, TRACE, STEPS = range(1, 7)
NORTH, SOUTH = bytes(range(16)), bytes(range(16, 32))
TABLES = {
    BATCH: (RANGE, STREAM, MESSAGE),
    ANSWERS: (RANGE, ANSWER, HIGHEST),
    FETCH: (),
    REFUSAL: (),
    TRACE: (RANGE, TRACED),
    STEPS: (),
}


def sealed(joined: bytes) -> bytes:
    """A frame whose checksum is right."""
    return joined + sha256(joined).digest()


def frame(kind: int, tables: Any = ((), (), ()), heap: bytes = b"", most_bytes: int = 0, version: int = 1) -> bytes:
    """A frame from `NORTH` to `SOUTH`."""
    rows = b"".join(layout.pack(*row) for layout, table in zip(TABLES[kind], tables, strict=False) for row in table)
    length = HEAD.size + len(rows) + len(heap) + 32
    head = HEAD.pack(version, kind, 1, max(1, version), length, NORTH, SOUTH, 3, *map(len, tables), most_bytes)
    return sealed(head + rows + heap)


def digest(header: bytes, body: bytes) -> bytes:
    """The digest of a message."""
    return sha256(len(header).to_bytes(4, "big") + header + body).digest()


def chain(stream_id: bytes, *messages: tuple[bytes, bytes]) -> bytes:
    """The chain behind messages, each its id and its digest."""
    at = sha256(b"seriatim stream" + stream_id).digest()
    for message_id, of in messages:
        at = sha256(at + message_id + of).digest()
    return at


def read(data: bytes) -> tuple[Any, ...]:
    """The head, the tables and the heap of a frame."""
    assert sha256(data[:-32]).digest() == data[-32:]
    head = HEAD.unpack_from(data)
    assert head[4] == len(data)
    at, tables = HEAD.size, []
    for layout, count in zip(TABLES[head[1]], head[8:11], strict=False):
        tables.append([layout.unpack_from(data, at + nth * layout.size) for nth in range(count)])
        at += count * layout.size
    return head, tables, data[at:-32]


MIB = 1024 * 1024


def batch(fragment: int = MIB) -> bytes:
    """A batch with a stream of two messages, one of fragments, one that closes and one that ends."""
    ids = [b"order-1", "bestätigt".encode(), b"large"]
    small = [(ids[0], b'{"type":"order"}', b"one"), (ids[1], b"{}", b"")]
    large = digest(b"{}", b"x" * (2 * fragment + 5))
    streams = [
        (3, 7, b"S" * 16, 0, 2, 40, 0, chain(b"S" * 16), 6, 6),
        (3, 9, b"T" * 16, 0, 1, 0, 0, chain(b"T" * 16), 6, 0),
        (2, 4, b"U" * 16, 1, 0, 12, 0, chain(b"U" * 16), 8, 1),
        (3, 5, b"V" * 16, 2, 0, 12, 10, chain(b"V" * 16), 6, 1),
    ]
    messages = [
        (digest(header, body), len(body), 0, len(body), len(one), len(header), 0) for one, header, body in small
    ]
    messages[1] = (*messages[1][:-1], 1)
    messages.append((large, 2 * fragment + 5, 2 * fragment, 5, len(ids[2]), 2, 0))
    heap = b"orders" + b"cust-1" + b"orders" + b"invoices" + b"k" + b"orders" + b"l"
    heap += b"".join(one + header + body for one, header, body in small) + ids[2] + b"{}" + b"xxxxx"
    return frame(BATCH, ([(2, 1, 3), (3, 1, 4), (3, 6, 6)], streams, messages), heap)


CONVERSATION = "00112233-4455-6677-8899-aabbccddeeff"


def dialog_chain(before: bytes, kind: str, body: bytes) -> bytes:
    """The chain behind a message of a dialog's direction."""
    return sha256(before + sha256(len(kind.encode()).to_bytes(4, "big") + kind.encode() + body).digest()).digest()


def dialogs(service: str = "Buyer", to: str = "Seller", **more: Any) -> bytes:
    """A batch of version 2: the first two numbers of a dialog, the second one its end; and a record outside the numbers, of another one."""
    first = sha256(b"seriatim dialog" + bytes.fromhex(CONVERSATION.replace("-", "")) + b"\1").digest()
    types = b'{"Header": "initiator"}'
    said = {
        "kind": "number", "conversation": CONVERSATION, "initiator": True, "number": [3, 1], "service": service, "far_service": to,
        "contract": "Short", "types": sha256(types).hexdigest(), "priority": 5, "lifetime": None, "sealed": False, "sequence": 0,
        "chain": first.hex(), "got": 0, "type": "Header", "content_type": None, "code": None, "text": None,
    }  # fmt: skip
    end = said | {"sequence": 1, "chain": dialog_chain(first, "Header", b"one").hex(), "type": "EndDialog"}
    gone = {
        "kind": "gone",
        "conversation": CONVERSATION[:-1] + "0",
        "initiator": False,
        "number": [2, 7],
        "code": -4,
        "text": "over",
    }
    key = CONVERSATION + ":i"
    contents = [(key + ":0", said | more, b"one"), (key + ":1", end, b""), (CONVERSATION[:-1] + "0:t:gone", gone, b"")]
    whole = [(one.encode(), json.dumps(header).encode(), body) for one, header, body in contents]
    streams = [
        (3, 11, b"X" * 16, 16, 2, 0, 0, chain(b"X" * 16), len(to), len(key)),
        (3, 12, b"Y" * 16, 16, 1, 0, 0, chain(b"Y" * 16), 7, 9),
    ]
    messages = [
        (digest(header, body), len(body), 0, len(body), len(one), len(header), 0) for one, header, body in whole
    ]
    heap = to.encode() + key.encode() + b"dialogs" + b"control:1" + b"".join(map(b"".join, whole))
    return frame(BATCH, ([], streams, messages), heap, version=2)


def answers() -> bytes:
    """Answers of each sort."""
    rows = [
        (3, 7, 0, 0, 42, 0, 0, chain(b"S" * 16)),
        (3, 9, 2, 0, 0, 1, 0, chain(b"T" * 16)),
        (2, 4, 3, 0, 0, 0, 0, bytes(32)),
        (3, 5, 4, 0, 12, 0, 11, chain(b"V" * 16)),
        (3, 8, 1, 5_000, 1, 0, 10, chain(b"W" * 16)),
    ]
    return frame(ANSWERS, ([(3, 6, 6)], rows, [(3, 9, chain(b"T" * 16))]), b"not equal." + b"!" + b"queue full")


def trace(message_id: bytes = b"bestellung-\xc3\xa4", id_space: bytes = b"shop", box: bytes = NORTH) -> bytes:
    """The question what became of a message."""
    return frame(TRACE, ((), [(box, len(message_id), len(id_space))], ()), message_id + id_space)


def between(data: bytes, sender: bytes, receiver: bytes) -> bytes:
    """The same frame between two other boxes."""
    return sealed(data[:8] + sender + receiver + data[40:-32])


RECORDED = {
    "batch": batch,
    "answers": answers,
    "fetch": lambda: frame(FETCH, most_bytes=4 * MIB),
    "refusal": lambda: frame(REFUSAL, heap=b"north isn't paired with this box"),
    "trace": trace,
    "steps": lambda: frame(
        STEPS,
        heap=b'{"received_at": "2026-01-02T03:04:05+00:00", "type": "order", "ticket": {"location": "link:north", "epoch": 0, "number": 7}, '
        b'"places": [{"queue": "orders", "group": "c1", "status": "done", "since": "2026-01-02T03:04:06+00:00"}], "faults": []}',
    ),
}
