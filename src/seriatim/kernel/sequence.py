"""Keys and sequences: their validity, and the number of a sequence."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np

from seriatim.kernel.outcome import Reason
from seriatim.kernel.policy import BestEffort, Policy

__all__ = ["LAST_NUMBER", "MAX_KEY_BYTES", "key_problem", "position", "ticket_position"]

#: The longest group key, in bytes of UTF-8.
MAX_KEY_BYTES = 1024
#: The last ticket number of an epoch unless a location says otherwise.
LAST_NUMBER = 2**53 - 1

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LOWEST, _HIGHEST = -(2**63), 2**63 - 1


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


def ticket_position(epoch: int, number: int, last_number: int = LAST_NUMBER) -> int:
    """One number for a ticket, contiguous over turn-overs, so that all rules apply to tickets unchanged."""
    return epoch * last_number + number


def position(policy: Policy, sequence: object) -> int | Reason:
    """The int64 for a sequence, or the reason why there is none.

    Args:
        policy: the policy, which decides whether the sequence is a time.
        sequence: an integer of Python or NumPy; a ticket as ``(epoch, number)``; if the policy orders by time, seconds
            or a datetime (a naive one counts as UTC).
    """
    if isinstance(sequence, np.integer):
        sequence = int(sequence)
    if sequence is None:
        return Reason.SEQUENCE_MISSING
    if isinstance(policy, BestEffort) and policy.by == "time":
        return _moment(sequence)
    match sequence:
        case bool():
            return Reason.SEQUENCE_NOT_A_NUMBER
        case int():
            value = int(sequence)
        case (int() | np.integer() as epoch, int() | np.integer() as number) if epoch >= 0 and number >= 1:
            value = ticket_position(int(epoch), int(number))
        case _:
            return Reason.SEQUENCE_NOT_A_NUMBER
    return value if _LOWEST <= value <= _HIGHEST else Reason.SEQUENCE_OVERFLOWS


def _moment(sequence: object) -> int | Reason:
    match sequence:
        case bool():
            return Reason.SEQUENCE_NOT_A_NUMBER
        case datetime():
            aware = sequence if sequence.tzinfo else sequence.replace(tzinfo=UTC)
            return (aware - _EPOCH) // timedelta(microseconds=1)
        case int() | float() if abs(sequence) < 2**62 / 1e6:
            return round(sequence * 1_000_000)
        case int() | float():
            return Reason.SEQUENCE_OVERFLOWS
    return Reason.SEQUENCE_NOT_A_NUMBER
