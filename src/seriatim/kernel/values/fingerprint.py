"""Fingerprints: a number for the content of a message, by which two contents are compared. 0: there is none."""

from __future__ import annotations

import json
from collections.abc import Iterable
from hashlib import blake2b
from typing import Any


def of_bytes(content: Iterable[bytes]) -> int:
    """The fingerprint of bytes, one part after another: the first 8 bytes of their BLAKE2b; never 0."""
    digest = blake2b()
    for part in content:
        digest.update(part)
    return int.from_bytes(digest.digest()[:8], "big", signed=True) or 1


def of_value(value: Any) -> int:
    """The fingerprint of a value that is bytes, text or JSON-like; 0 for any other. JSON-like are None, booleans, numbers and text, and
    lists, tuples and dictionaries of them. Two such values are the same if their canonical JSON is: with sorted keys, and without spaces.
    """
    if isinstance(value, bytes | bytearray | memoryview):
        return of_bytes((bytes(value),))
    try:
        written = json.dumps(value, sort_keys=True, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError):
        return 0
    return of_bytes((written.encode(),))
