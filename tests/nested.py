"""Lists in lists, about as deep as the reader of JSON goes on this Python."""

from __future__ import annotations

import json
from itertools import count


def nested_lists() -> list[bytes]:
    """Return lists from a depth that can be read to one that can't, also where the reader is called from deeper in the stack."""
    beyond = next(depth for depth in count(50, 50) if not can_be_read(_nested(depth)))
    return [_nested(depth) for depth in (1, *range(beyond - 100, beyond + 1))]


def can_be_read(body: bytes) -> bool:
    try:
        json.loads(body)
    except RecursionError:
        return False
    return True


def _nested(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth
