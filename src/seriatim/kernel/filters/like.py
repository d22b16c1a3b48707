"""``LIKE``: whether a text consists of some segments with anything between them.

Each segment between the first and the last is matched at its first place and not looked for again, which is
correct for them. Python's own search finds a segment without ``_``, in time proportional to the text. A regular
expression finds a segment with ``_`` in a short text. In a long text that would take the text's length
times the segment's, so there the possible places of its begin are kept as the bits of one number, and each
character of the segment removes some of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

#: A regular expression takes time proportional to the length of the text times the length of a segment. Up to this number
#: of characters the time is practically proportional to the text.
LONG_SEGMENT = 32

# Up to this number of steps a regular expression is faster.
_FEW_STEPS = 2**16
# The number of places that are checked together; it limits the cost of a segment that is found near by.
_PLACES = 2**16

_Segment = Sequence[str | None]


def like(segments: Sequence[_Segment]) -> Callable[[str], bool]:
    """A function that tests whether a text matches; in a segment None is any one code point."""
    first, *middle = segments
    begins, least = _at(first), sum(map(len, segments))
    if not middle:
        return lambda text: len(text) == least and begins(text, 0)
    *middle, last = middle
    ends, finds, before, behind = _at(last), [_finder(segment) for segment in middle if segment], len(first), len(last)

    def matches(text: str) -> bool:
        end = len(text) - behind
        if len(text) < least or not begins(text, 0) or not ends(text, end):
            return False
        place = before
        for find in finds:
            place = find(text, place, end)
            if place < 0:
                return False
        return True

    return matches


def like_regex(segments: Sequence[_Segment]) -> str:
    """The regular expression for a whole text, for Python and Java, in which ``.`` matches any code point."""
    first, *middle = ["".join(map(_regex_of, segment)) for segment in segments]
    if not middle:
        return first
    last = middle.pop()
    return first + "".join(f"(?>.*?{segment})" for segment in middle if segment) + ".*" + last


def _regex_of(character: str | None) -> str:
    if character is None:
        return "."
    return f"\\{character}" if character.isascii() and not character.isalnum() else character


def _at(segment: _Segment) -> Callable[[str, int], bool]:
    if None not in segment:
        plain = "".join(filter(None, segment))
        return lambda text, place: text.startswith(plain, place)
    runs = _runs(segment)
    return lambda text, place: all(text.startswith(run, place + at) for at, run in runs)


def _runs(segment: _Segment) -> list[tuple[int, str]]:
    runs: list[tuple[int, str]] = []
    for place, character in enumerate(segment):
        if character is None:
            continue
        if runs and runs[-1][0] + len(runs[-1][1]) == place:
            runs[-1] = (runs[-1][0], runs[-1][1] + character)
        else:
            runs.append((place, character))
    return runs


def _finder(segment: _Segment) -> Callable[[str, int, int], int]:
    """The end of the first occurrence of a segment between two places of a text; -1: there is none."""
    length = len(segment)
    if None not in segment:
        plain = "".join(filter(None, segment))

        def find_plain(text: str, start: int, end: int) -> int:
            place = text.find(plain, start, end)
            return place if place < 0 else place + length

        return find_plain
    # `re` keeps the patterns that it has compiled.
    pattern = "".join(map(_regex_of, segment))

    def find(text: str, start: int, end: int) -> int:
        if (end - start) * length <= _FEW_STEPS:
            match = re.compile(pattern, re.DOTALL).search(text, start, end)
            return match.end() if match else -1
        for begin in range(start, end - length + 1, _PLACES):
            place = _first(text[begin : min(begin + _PLACES + length - 1, end)], segment)
            if place >= 0:
                return begin + place + length
        return -1

    return find


def _first(text: str, segment: _Segment) -> int:
    """The first place of a segment in a text; -1: there is none."""
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    where: dict[str, int] = {}
    left = (1 << max(len(text) - len(segment) + 1, 0)) - 1
    for place, character in enumerate(segment):
        if character is None:
            continue
        if (at := where.get(character)) is None:
            at = where[character] = _bits(codes == ord(character))
        left &= at >> place
        if not left:
            return -1
    return (left & -left).bit_length() - 1


def _bits(true: NDArray[np.bool_]) -> int:
    return int.from_bytes(np.packbits(true, bitorder="little").tobytes(), "little")
