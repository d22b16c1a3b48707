"""Keys and sequences: their validity, and the number of a sequence. The rules of numbers and times: ``reading.py``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from seriatim.kernel.groups.policy import BestEffort, Policy
from seriatim.kernel.values.outcome import Reason
from seriatim.kernel.values.reading import LAST_NUMBER, moment, sequence_number, ticket_position

__all__ = ["LAST_NUMBER", "MAX_KEY_BYTES", "key_problem", "position_reader", "ticket_position"]

#: The longest group key, in bytes of UTF-8.
MAX_KEY_BYTES = 1024


def key_problem(key: object) -> Reason:
    """The problem with a group key; `Reason.NONE` if it is valid."""
    if key is None or key in ("", b""):
        return Reason.KEY_MISSING
    try:
        if isinstance(key, str):
            raw = key.encode()
        elif isinstance(key, bytes):
            raw = key
            raw.decode()
        else:
            return Reason.KEY_NOT_TEXT
    except UnicodeError:
        return Reason.KEY_NOT_TEXT
    if len(raw) > MAX_KEY_BYTES:
        return Reason.KEY_TOO_LONG
    return Reason.KEY_HAS_NUL if b"\0" in raw else Reason.NONE


def position_reader(policy: Policy) -> Callable[[Any], int | Reason]:
    """The function that reads a policy's sequences: the int64 for a sequence, or the reason why there is none."""
    return moment if isinstance(policy, BestEffort) and policy.by == "time" else sequence_number
