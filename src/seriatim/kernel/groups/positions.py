"""Positions: an order that isn't one int64. They are compared as bytes.

The rules judge int64. In the state of a queue by positions there are *ranks* in their place: rows of a list of positions, sorted, each
once, which an engine keeps beside the state. A call puts what comes into that list, so the ranks of before move; afterwards the list has
what the state still needs: what is held, and the highest that has left.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from collections.abc import Sequence as List
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np

from seriatim.kernel.groups.state import NOTHING, Flag, State
from seriatim.kernel.values.columns import Bools, Ints
from seriatim.kernel.values.outcome import Reason
from seriatim.kernel.values.reading import LOWEST, unwrapped, whole_number

#: The longest position, in bytes, and the most digits of one that is a decimal number.
MOST_BYTES, MOST_DIGITS = 64, 64
DIGITS_TEXT = rf"[0-9]{{1,{MOST_DIGITS}}}"
_DIGITS = re.compile(DIGITS_TEXT)


def position_of(value: Any, *, digits: bool) -> bytes | Reason:
    """A position as it is compared, or the reason why a value is none.

    Text and bytes are compared as they are, decimal numbers by their value, and several parts one after another.

    Args:
        value: text, bytes, a whole number that isn't negative (also a decimal), or a tuple or list of parts.
        digits: whether text is decimal.
    """
    plain = unwrapped(value)
    if isinstance(plain, tuple | list):
        return _of_parts(plain)
    if isinstance(plain, Decimal) and plain.is_finite() and plain.adjusted() < MOST_DIGITS and plain == int(plain):
        plain = int(plain)
    if isinstance(plain, int) and not isinstance(plain, bool):
        plain, digits = str(plain) if 0 <= plain < 10**MOST_DIGITS else "-", True
    if plain is None or plain in ("", b""):
        return Reason.SEQUENCE_MISSING
    if digits:
        fits = isinstance(plain, str) and _DIGITS.fullmatch(plain) is not None
        return plain.zfill(MOST_DIGITS).encode() if fits else Reason.NOT_A_POSITION
    return _of_text(plain)


def _of_text(value: Any) -> bytes | Reason:
    try:
        found = (
            value.encode() if isinstance(value, str) else bytes(value) if isinstance(value, bytes | bytearray) else b""
        )
    except UnicodeError:
        return Reason.NOT_A_POSITION
    return found if 0 < len(found) <= MOST_BYTES else Reason.NOT_A_POSITION


def _of_parts(parts: List[Any]) -> bytes | Reason:
    """Several parts as one: whole numbers as eight bytes that ascend with them, text with an end that is below all others."""
    found = b""
    for part in parts:
        if part is None:
            return Reason.SEQUENCE_MISSING
        number = whole_number(part)
        if not isinstance(number, Reason):
            found += (number - LOWEST).to_bytes(8, "big")
            continue
        text = _of_text(unwrapped(part))
        if isinstance(text, Reason) or b"\0" in text:
            return Reason.NOT_A_POSITION
        found += text + b"\0"
    return found if 0 < len(found) <= MOST_BYTES else Reason.NOT_A_POSITION


def position_text(position: bytes) -> str | bytes:
    """A position as people read it; one of several parts is bytes."""
    try:
        text = position.decode()
    except UnicodeDecodeError:
        return position
    if "\0" in text:
        return position
    return (text.lstrip("0") or "0") if len(text) == MOST_DIGITS and _DIGITS.fullmatch(text) else text


def shown_position(position: bytes) -> str:
    """A position as a view shows it: text, or hexadecimal digits."""
    text = position_text(position)
    return text if isinstance(text, str) else f"0x{text.hex()}"


class Ranked(NamedTuple):
    """The positions of several groups and of what comes to them as one list; the state of each group, and what comes, in its ranks."""

    every: list[bytes]
    states: list[State]
    came: Ints


def ranked(known: Iterable[tuple[State, List[bytes]]], came: List[bytes] = ()) -> Ranked:
    pairs = list(known)
    every = sorted({*came, *(one for _, positions in pairs for one in positions)})
    place = {one: rank for rank, one in enumerate(every)}
    states = [_moved(state, np.array([place[one] for one in positions], np.int64)) for state, positions in pairs]
    return Ranked(every, states, np.array([place[one] for one in came], np.int64))


def ranks(state: State) -> tuple[State, Ints]:
    """The ranks that a state needs, ascending, and the state in ranks among these."""
    groups = state.groups
    used = [state.held.sequence, groups.mark[groups.has(Flag.FIXED)]]
    used += [column[column != NOTHING] for column in (groups.next, groups.last)]
    needed = np.unique(np.concatenate(used))
    places = np.zeros(int(needed[-1]) + 1 if len(needed) else 0, np.int64)
    places[needed] = np.arange(len(needed))
    return _moved(state, places), needed


def _moved(state: State, places: Ints) -> State:
    """The state with other ranks; `places` has the new one for each present one."""

    def moved(column: Ints, where: Bools) -> Ints:
        found = column.copy()
        found[where] = places[column[where]]
        return found

    groups = state.groups
    next_, last = (moved(column, column != NOTHING) for column in (groups.next, groups.last))
    groups = groups.with_columns(next=next_, last=last, mark=moved(groups.mark, groups.has(Flag.FIXED)))
    held = state.held
    return state.having(groups, held.with_columns(sequence=places[held.sequence]) if len(held) else held)
