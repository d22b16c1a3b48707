"""The chain of a stream: one hash that stands for all messages up to a number.

`chain(n) = SHA-256(chain(n - 1) ‖ message_id ‖ content_digest(header, body))`, the id as UTF-8, and `chain(0)` comes from the stream's id. Two boxes that have the
same number and the same chain have the same messages before it. Two that have the same number only may not: one of them may
have been restored from a backup and have gone on differently.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import accumulate

__all__ = ["SIZE", "content_digest", "extended", "first"]

#: Bytes of a chain and of a digest.
SIZE = 32


def first(stream_id: bytes) -> bytes:
    """The chain before a stream's first message. `stream_id`: the 16 bytes of its UUID, which no other stream has."""
    return hashlib.sha256(b"seriatim stream" + stream_id).digest()


def content_digest(header: bytes, body: bytes | memoryview) -> bytes:
    """The digest of a message's content. The header's length goes first, so that no byte can move from one to the other."""
    digest = hashlib.sha256(len(header).to_bytes(4, "big"))
    digest.update(header)
    digest.update(body)
    return digest.digest()


def extended(chain: bytes, message_ids: Sequence[bytes], digests: Sequence[bytes]) -> list[bytes]:
    """The chains after each of these messages, and before the first: one more than there are messages."""
    links = map(bytes.__add__, message_ids, digests)
    return list(accumulate(links, lambda before, link: hashlib.sha256(before + link).digest(), initial=chain))
