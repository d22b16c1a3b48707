"""Split messages: from the body of a message to the bodies of its parts. For XML see `text_files.py`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from json.decoder import WHITESPACE, scanstring  # type: ignore[attr-defined]
from typing import Protocol

from seriatim.pipeline.bodies.json_paths import path_steps
from seriatim.pipeline.bodies.property_values import Unreadable, shortened, text_of
from seriatim.pipeline.declared.function import Function
from seriatim.spark.receive.promotion import failed


class NothingToSplit(Unreadable):
    """A message that has no parts."""


#: From the body of a message to those of its parts, at least one. Raises `NothingToSplit`, or else `Unreadable`.
Split = Callable[[bytes], list[bytes]]

_MOST_PARTS = 1_000_000
# Numbers stay text here: none is too long or too large to be passed on.
_DECODER = json.JSONDecoder(parse_float=str, parse_int=str)
_past: Callable[[str, int], tuple[object, int]] = _DECODER.scan_once  # type: ignore[attr-defined]


class Splitter(Protocol):
    def splitter(self) -> Split:
        """A function that splits a body, made once in each task. Raises `UsageError` if the path or function is wrong."""


@dataclass(frozen=True, slots=True)
class JsonElements:
    """The elements of a list in a JSON document, each as it is written there."""

    path: str

    def splitter(self) -> Split:
        steps = path_steps(self.path)

        def split(body: bytes) -> list[bytes]:
            text = text_of(body)
            if not text.strip():
                raise NothingToSplit("split: the body is empty")
            try:
                _DECODER.decode(text)
                parts = _parts(text, steps)
            except ValueError as error:
                raise Unreadable(f"not JSON: {shortened(str(error))}") from error
            except RecursionError as error:
                raise Unreadable("not JSON that can be read: nested too deeply") from error
            if parts is None:
                raise NothingToSplit(f"split: there is no list at {self.path}")
            if not parts:
                raise NothingToSplit(f"split: the list at {self.path} is empty")
            return parts

        return split


def _parts(text: str, steps: tuple[str | int, ...]) -> list[bytes] | None:
    """The elements of the list at a path in a valid document; None: there is no list."""
    place = _place(text, steps)
    if place is None or text[place] != "[":
        return None
    return [text[first:past].encode() for first, past in _elements(text, place)]


def _place(text: str, steps: tuple[str | int, ...]) -> int | None:
    """The place in a valid document where the value at a path begins."""
    place: int | None = _filled(text, 0)
    for step in steps:
        if place is None:
            return None
        if isinstance(step, int):
            spans = _elements(text, place) if text[place] == "[" else iter(())
            place = next((first for first, _ in islice(spans, step, None)), None)
        else:  # of a repeated name the last one counts, as for every reader
            members = _members(text, place) if text[place] == "{" else iter(())
            place = max((first for name, first in members if name == step), default=None)
    return place


def _elements(text: str, place: int) -> Iterator[tuple[int, int]]:
    place = _filled(text, place + 1)
    while text[place] != "]":
        _, past = _past(text, place)
        yield place, past
        place = _filled(text, past)
        if text[place] == ",":
            place = _filled(text, place + 1)


def _members(text: str, place: int) -> Iterator[tuple[str, int]]:
    place = _filled(text, place + 1)
    while text[place] != "}":
        name, past = scanstring(text, place + 1)
        first = _filled(text, _filled(text, past) + 1)
        yield name, first
        _, past = _past(text, first)
        place = _filled(text, past)
        if text[place] == ",":
            place = _filled(text, place + 1)


def _filled(text: str, place: int) -> int:
    """The next place that isn't white space."""
    return int(WHITESPACE.match(text, place).end())


@dataclass(frozen=True, slots=True)
class ReturnedParts:
    function: Function

    def splitter(self) -> Split:
        call, name = self.function.load(), self.function.name

        def split(body: bytes) -> list[bytes]:
            try:
                answer = call(body)
                parts = answer if isinstance(answer, bytes | str) else list(islice(answer, _MOST_PARTS + 1))
            except (Exception, SystemExit) as error:
                raise failed(name, error) from error
            if isinstance(parts, bytes | str):
                raise Unreadable(f"{name}: returned {type(parts).__name__}, not a list of bytes")
            if not parts:
                raise NothingToSplit(f"{name}: returned no part")
            if len(parts) > _MOST_PARTS:
                raise Unreadable(f"{name}: returned more than {_MOST_PARTS:,} parts")
            for number, part in enumerate(parts, 1):
                if not isinstance(part, bytes | bytearray):
                    raise Unreadable(f"{name}: part {number} is {type(part).__name__}, not bytes")
            return [bytes(part) for part in parts]

        return split
