"""The meaning of an entry's number, where that isn't plain: the column `meaning` of entries.

Four numbers: bits, the last number that it covers, its epoch, and the fingerprint of a part's content; and in the first message of a
partial set what that lacks, as runs. Of a part whose key may be used again the epoch is, once it has left, the ordinal of the last part
of its set. The bits are those of ``kernel/groups/numbers.py`` and the ones here: its number, and the last that it covers, are those through
all turns; it has numbers that have left before; its set isn't complete.

A position takes the place of what a set lacks: its bytes, eight as a number, in the order of the bytes. In place of the last number is how
many bytes it has.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from seriatim.kernel.groups.arrivals import NOT_SAID
from seriatim.kernel.groups.number_reader import Read
from seriatim.kernel.groups.numbers import BASE, IN_LINE, OF_ENDED, POSITION, RESTARTS, UNNUMBERED, VOID
from seriatim.kernel.groups.positions import MOST_BYTES
from seriatim.kernel.values.columns import Columns, Ints
from seriatim.kernel.values.outcome import numbers_in

UNWRAPPED, OVERLAPS, PARTIAL = 1024, 2048, 4096
#: How many bytes of a position are one number, and what is taken from that, so that numbers are in the order of bytes.
_BYTES, _HALF = 8, 2**63
#: The bits that a message brings along; those of messages without a number; those that a turn writes.
TOLD, BARE, _OF_TURN = BASE | RESTARTS | UNNUMBERED, RESTARTS | UNNUMBERED, OF_ENDED | IN_LINE | UNWRAPPED | OVERLAPS


class Meaning(NamedTuple):
    """The meaning of one number: its bits, the last number that it covers, its epoch, and the fingerprint of its content."""

    bits: int = 0
    through: int = 0
    epoch: int = 0
    content: int = 0

    @classmethod
    def of(cls, read: Read) -> str | None:
        """Return what was read of a message, as the text of an array of PostgreSQL; None if its number is plain."""
        bits = (0 if read.size == NOT_SAID else read.size) | (0 if read.weight else VOID)
        if read.position is not None:
            return cls(bits | POSITION, len(read.position)).written(_numbers_of(read.position))
        plain = not bits and read.epoch is None and read.through == read.number
        return None if plain else cls(bits, read.through, read.epoch or 0).written()

    @classmethod
    def with_contents(
        cls, texts: Sequence[str | None] | None, numbers: Sequence[int | None], contents: Sequence[int]
    ) -> list[str | None]:
        """The meanings of parts that are compared. A void is compared with nothing."""
        said = texts or [None] * len(numbers)
        own = (cls(0, number or 0, 0, content) for number, content in zip(numbers, contents, strict=True))
        return [text or one.written() for text, one in zip(said, own, strict=True)]

    def written(self, lacks: Iterable[int] = ()) -> str:
        return f"{{{','.join(map(str, (*self, *lacks)))}}}"


def _numbers_of(position: bytes) -> list[int]:
    whole = position + bytes(-len(position) % _BYTES)
    return [int.from_bytes(whole[at : at + _BYTES], "big") - _HALF for at in range(0, len(whole), _BYTES)]


def position_in(stored: Sequence[int]) -> bytes:
    whole = b"".join((number + _HALF).to_bytes(_BYTES, "big") for number in stored[4:])
    return whole[: min(stored[1], MOST_BYTES)]


def end_of_set(text: str | None) -> int | None:
    """The ordinal of the last part of a released part's set, where it is stored."""
    return None if text is None else int(text[1:-1].split(",", 4)[2]) or None


@dataclass(frozen=True, slots=True)
class Meanings(Columns):
    bits: Ints
    through: Ints
    epoch: Ints
    content: Ints

    @classmethod
    def of(cls, texts: Iterable[str | None] | None, sequences: Ints) -> Meanings:
        """Those of entries, from PostgreSQL's text; a plain number covers itself."""
        none = np.zeros(len(sequences), np.int64)
        table = np.stack([none, sequences, none, none])
        for row, text in enumerate(() if texts is None else texts):
            if text is not None:
                table[:, row] = [int(number) for number in text[1:-1].split(",", 4)[:4]]
        return cls(*table)

    def texts(self, lacks: Iterable[Iterable[int]]) -> list[str]:
        """As PostgreSQL writes arrays; `lacks`: what the set of each lacks."""
        return [Meaning(*row).written(its) for row, its in zip(zip(*self.lists(), strict=True), lacks, strict=True)]

    def of_turn(self, bits: Ints) -> Ints:
        """The bits that were stored, without those that a turn writes, and with others."""
        return (self.bits & ~_OF_TURN) | bits


class Shown(NamedTuple):
    """What a received message shows of its number's meaning."""

    overlaps: bool = False
    partial: bool = False
    missing: tuple[int, ...] = ()
    epoch: int | None = None

    @classmethod
    def of(cls, stored: Sequence[int] | None, *, epochs: bool) -> dict[str, Any]:
        bits, _, epoch, _, *lacks = stored or Meaning()
        missing = numbers_in(zip(lacks[::2], lacks[1::2], strict=True)) if bits & PARTIAL else ()
        told = epochs and not bits & UNNUMBERED
        return cls(bool(bits & OVERLAPS), bool(bits & PARTIAL), missing, epoch if told else None)._asdict()
