"""JSON: a body to its document, and properties by paths.

Pure Python, because Spark's own functions give up on documents above 16 MiB.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

from seriatim.errors import UsageError
from seriatim.pipeline.bodies.envelopes.registry import lookup_of
from seriatim.pipeline.bodies.property_values import (
    Find,
    Promoted,
    Unreadable,
    Value,
    converted,
    converter_of,
    finder,
    promoted,
    shortened,
    text_of,
)
from seriatim.pipeline.declared.promotion import Promotion

_STEP = re.compile(r"""\.([^.\[\]'"\s*?]+)|\[(\d{1,18})\]|\['([^']+)'\]""")


def path_steps(path: str) -> tuple[str | int, ...]:
    steps: list[str | int] = []
    place = 1
    while path.startswith("$") and place < len(path):
        step = _STEP.match(path, place)
        if step is None:
            break
        name, position, quoted = step.groups()
        steps.append(int(position) if position is not None else name or quoted)
        place = step.end()
    if not path.startswith("$") or place != len(path):
        raise UsageError(
            f"{path!r} is not a path to one value", remedy="such as $.customer.id or $.lines[0]['unit price']"
        )
    return tuple(steps)


@dataclass(frozen=True, slots=True)
class JsonPaths:
    """Reads a JSON document. A missing value and a null are null. A value that is not of its property's type is a problem, except if text
    or a number can be converted without loss: ``"7"`` and ``7.0`` are the long 7, 7 is the string ``"7"``. `blank`: a blank body counts as
    a null.
    """

    promote: tuple[Promotion, ...]
    blank: bool = False

    def reader(self) -> Callable[[bytes], Promoted]:
        """Return a function from a body to the promoted values; it raises `Unreadable` if the body is no JSON."""
        finds = [find for _, find in self.finders()]
        document_of, blank = json_reader(), self.blank

        def read(body: bytes) -> Promoted:
            text = text_of(body)
            return promoted(finds, None if blank and not text.strip() else document_of(text))

        return read

    def finders(self) -> list[tuple[str, Find]]:
        """Return by name the functions that find promoted values in a document; they raise `Unreadable`. Raises `UsageError` for a wrong
        path.
        """
        return [(item.name, _finder(item)) for item in self.promote]


def _finder(item: Promotion) -> Find:
    name, convert = item.name, converter_of(item.name, item.type)
    if item.told_by is not None:
        return finder(name, [lookup_of(item.told_by, path) for path in item.paths], convert)
    if len(item.paths) > 1:
        return finder(name, [json_lookup(path) for path in item.paths], convert)
    steps = path_steps(item.paths[0])

    def find(document: Value) -> Value:  # the common case, without a call in between
        value = document
        for step in steps:
            value = _at(value, step)
        return None if value is None else converted(name, convert, value)

    return find


def json_lookup(path: str) -> Find:
    """Return a function that finds the value at a path. Raises `UsageError` if it is no path to one value."""
    steps = path_steps(path)

    def lookup(document: Value) -> Value:
        value = document
        for step in steps:
            value = _at(value, step)
        return value

    return lookup


def json_reader() -> Callable[[str], Value]:
    """Return a function that reads a JSON text; numbers with a point or exponent become `Decimal`. It raises `Unreadable`."""
    decode = json.JSONDecoder(parse_float=Decimal, parse_constant=_no_constant).decode

    def read(text: str) -> Value:
        try:
            return decode(text)
        except json.JSONDecodeError as error:
            raise Unreadable(f"not JSON: {shortened(str(error))}") from error
        except (ValueError, ArithmeticError, RecursionError) as error:
            raise Unreadable(f"not JSON that can be read: {_too_much(error)}") from error

    return read


def _too_much(error: Exception) -> str:
    """Return the part of a JSON text that exceeds Python's limits."""
    match error:
        case RecursionError():
            return "nested too deeply"
        case ArithmeticError():
            return "a number of such an exponent"
    return f"a whole number of more than {sys.get_int_max_str_digits():,} digits"


def _at(value: Value, step: str | int) -> Value:
    if isinstance(step, str):
        return value.get(step) if isinstance(value, dict) else None
    return value[step] if isinstance(value, list) and step < len(value) else None


def _no_constant(name: str) -> Value:
    raise json.JSONDecodeError(f"{name} is no JSON number", name, 0)
