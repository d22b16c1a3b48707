"""The patterns of XSD: the check that they are deterministic, with one way on at each character.

libxml2 tries one way after another, which can take for ever on a short text, and there is no other engine that
validates XSD. If at most one place of the pattern can match each character (as XSD itself demands of its content
models), there is nothing to try again. The places and their successors are Glushkov's automaton.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from seriatim.errors import UsageError, shown

# The most atoms that are read; repeated ones count again.
_MOST_ATOMS = 1_000
_DEEPEST = 50
_CODES = 0x110000
_QUANTIFIER = re.compile(r"\{(\d{1,9})(?:(,)(\d{1,9})?)?\}", re.ASCII)
_PROPERTY = re.compile(r"[pP]\{(\w[\w-]*)\}", re.ASCII)
_CONTROLS = {"n": 10, "r": 13, "t": 9}

#: Code points: each as one item, or eight in a byte.
_Set = NDArray[np.bool_]
_Bits = NDArray[np.uint8]


def check_pattern(pattern: str) -> None:
    """Check that a pattern takes time proportional to the text."""
    try:
        whole = _Pattern(pattern).read()
    except RecursionError:
        raise _refused(pattern, "is nested too deeply") from None
    following = [whole.first, *whole.follow.values()]
    for places in following:
        if _overlap([whole.sets[place] for place in places]):
            remedy = "write it so that each character can be taken in one way only: [^@]*@.* in place of .*@.*"
            raise _refused(pattern, "has several ways to take a text, which can take time without end", remedy)


def _overlap(sets: list[_Bits]) -> bool:
    if len(sets) < 2:
        return False
    taken = sets[0].copy()
    for one in sets[1:]:
        if bool((taken & one).any()):
            return True
        taken |= one
    return False


def _refused(pattern: str, what: str, remedy: str = "") -> UsageError:
    return UsageError(f"the pattern {shown(pattern, 80)} {what}", remedy=remedy)


@dataclass(frozen=True, slots=True)
class _Fragment:
    """A part of a pattern: whether it matches no text, its first and last places, and the successors of each place."""

    empty: bool
    first: frozenset[int]
    last: frozenset[int]


@dataclass(frozen=True, slots=True)
class _Whole:
    first: frozenset[int]
    follow: dict[int, set[int]]
    sets: list[_Bits]


_NOTHING = _Fragment(empty=True, first=frozenset(), last=frozenset())


class _Pattern:
    """Reads a pattern of XSD, part by part; a repeated part is read again."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = self._atoms = 0
        self._sets: list[_Bits] = []
        self._follow: dict[int, set[int]] = {}

    def read(self) -> _Whole:
        found = self._branches(0)
        if self._at < len(self._text):
            self._refuse("has a ) without a (")
        return _Whole(found.first, self._follow, self._sets)

    def _refuse(self, what: str) -> NoReturn:
        raise _refused(self._text, what)

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _branches(self, depth: int) -> _Fragment:
        if depth > _DEEPEST:
            self._refuse("is nested too deeply")
        found = [self._branch(depth)]
        while self._peek() == "|":
            self._at += 1
            found.append(self._branch(depth))
        return _Fragment(
            any(one.empty for one in found),
            frozenset().union(*(one.first for one in found)),
            frozenset().union(*(one.last for one in found)),
        )

    def _branch(self, depth: int) -> _Fragment:
        found = _NOTHING
        while self._peek() not in ("", "|", ")"):
            found = self._joined(found, self._piece(depth))
        return found

    def _joined(self, one: _Fragment, other: _Fragment) -> _Fragment:
        for place in one.last:
            self._follow[place] |= other.first
        return _Fragment(
            one.empty and other.empty,
            one.first | other.first if one.empty else one.first,
            one.last | other.last if other.empty else other.last,
        )

    def _piece(self, depth: int) -> _Fragment:
        begin = self._at
        found = self._atom(depth)
        least, most = self._times()
        end, copies = self._at, [found]
        # Three in a row have all that can follow each other, however many there are.
        for _ in range(1, min(max(least, most or 2), 3)):
            self._at = begin
            copies.append(self._atom(depth))
        self._at = end
        if most == 0:
            return _NOTHING
        if most is None:
            for place in copies[-1].last:
                self._follow[place] |= copies[-1].first
        whole = _NOTHING
        needed = min(least, len(copies) - (0 if most == least else 1))
        for number in reversed(range(len(copies))):
            one = copies[number]
            optional = _Fragment(empty=True, first=one.first, last=one.last) if number >= needed else one
            if number >= needed and whole is not _NOTHING:
                # What follows an optional part comes only with it.
                inner = self._joined(one, whole)
                whole = _Fragment(empty=True, first=inner.first, last=inner.last)
            else:
                whole = self._joined(optional, whole)
        return whole

    def _times(self) -> tuple[int, int | None]:
        """Read the least and the largest number of repetitions of the preceding atom."""
        match self._peek():
            case "?":
                found: tuple[int, int | None] = (0, 1)
            case "*":
                found = (0, None)
            case "+":
                found = (1, None)
            case "{":
                written = _QUANTIFIER.match(self._text, self._at)
                if written is None:
                    self._refuse("has a { that is no quantifier")
                self._at = written.end()
                least = int(written[1])
                return least, (int(written[3]) if written[3] else None) if written[2] else least
            case _:
                return 1, 1
        self._at += 1
        return found

    def _atom(self, depth: int) -> _Fragment:
        self._atoms += 1
        if self._atoms > _MOST_ATOMS:
            self._refuse("is too large")
        character = self._peek()
        match character:
            case "(":
                self._at += 1
                found = self._branches(depth + 1)
                if self._peek() != ")":
                    self._refuse("has a ( that is not closed")
                self._at += 1
                return found
            case "[":
                return self._place(self._class(0))
            case "\\":
                member = self._escape()
                return self._place(_set_of(member) if isinstance(member, int) else member)
            case "?" | "*" | "+" | "{":
                self._refuse(f"has a {character} that follows nothing")
        self._at += 1
        return self._place(_complement_of("\n\r") if character == "." else _set_of(ord(character)))

    def _place(self, taken: _Set) -> _Fragment:
        number = len(self._sets)
        self._sets.append(np.packbits(taken))
        self._follow[number] = set()
        return _Fragment(empty=False, first=frozenset([number]), last=frozenset([number]))

    def _class(self, depth: int) -> _Set:
        if depth > _DEEPEST:
            self._refuse("is nested too deeply")
        self._at += 1
        negated = self._peek() == "^"
        self._at += negated
        taken = np.zeros(_CODES, np.bool_)
        without: _Set | None = None
        begun = False
        while self._peek() != "]" or not begun:
            if not self._peek():
                self._refuse("has a [ that is not closed")
            if self._text.startswith("-[", self._at):
                self._at += 1
                without = self._class(depth + 1)
                break
            begun = True
            low = self._member()
            if (
                isinstance(low, int)
                and self._peek() == "-"
                and self._text[self._at + 1 : self._at + 2] not in ("]", "[")
            ):
                self._at += 1
                high = self._member()
                if not isinstance(high, int):
                    self._refuse("has a range to a whole class")
                taken[low : high + 1] = True
            elif isinstance(low, int):
                taken[low] = True
            else:
                taken |= low
        if self._peek() != "]":
            self._refuse("has a [ that is not closed")
        self._at += 1
        taken = ~taken if negated else taken
        return taken if without is None else taken & ~without

    def _member(self) -> int | _Set:
        character = self._peek()
        if character == "\\":
            return self._escape()
        if not character:
            self._refuse("has a [ that is not closed")
        self._at += 1
        return ord(character)

    def _escape(self) -> int | _Set:
        character = self._text[self._at + 1 : self._at + 2]
        named = _PROPERTY.match(self._text, self._at + 1)
        if named is not None:
            self._at = named.end()
            return _category(named[1], negated=named[0].startswith("P"))
        self._at += 2
        if character in _CONTROLS:
            return _CONTROLS[character]
        if character and character in "sSdDwWiIcC":
            return _escaped(character)
        if not character or character.isalnum():
            self._refuse(f"has \\{character}, which is no escape")
        return ord(character)


@lru_cache(maxsize=256)
def _set_of(code: int) -> _Set:
    found = np.zeros(_CODES, np.bool_)
    found[code] = True
    return found


@lru_cache(maxsize=16)
def _complement_of(characters: str) -> _Set:
    found = np.ones(_CODES, np.bool_)
    found[list(map(ord, characters))] = False
    return found


@lru_cache(maxsize=1)
def _categories() -> NDArray[np.str_]:
    """Return the general category of every code point."""
    return np.array([unicodedata.category(chr(code)) for code in range(_CODES)], "U2")


@lru_cache(maxsize=64)
def _category(name: str, *, negated: bool) -> _Set:
    """Return the code points of a category; for a block, which Python doesn't know, all code points."""
    categories = _categories()
    found = np.char.startswith(categories, name)
    if not found.any():
        return np.ones(_CODES, np.bool_)
    return ~found if negated else found


@lru_cache(maxsize=16)
def _escaped(character: str) -> _Set:
    if character.isupper():
        return ~_escaped(character.lower())
    plain: Callable[[str], _Set] = lambda name: _category(name, negated=False)  # noqa: E731 - short, and used seven times
    match character:
        case "s":
            return ~_complement_of(" \t\n\r")
        case "d":
            return plain("Nd")
        case "w":
            return ~(plain("P") | plain("Z") | plain("C"))
    letters = plain("L") | plain("Nl") | _set_of(ord("_")) | _set_of(ord(":"))
    if character == "i":
        return letters
    return letters | plain("M") | plain("Nd") | ~_complement_of("-.\u00b7") | plain("Lm")
