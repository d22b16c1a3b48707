"""Lifting properties out of bodies: one row of text in, the promoted values or a reason out.

Pure Python without Spark, whose own functions give up on JSON documents above 16 MiB. What a value may be is
`values.py`; XML is `xml.py`.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal

import numpy as np

from seriatim.errors import UsageError
from seriatim.pipeline.declaration import Promotion
from seriatim.pipeline.function import Function
from seriatim.spark.values import (
    Converter,
    Unreadable,
    Value,
    arrow_type,
    converted,
    converter,
    ddl_of,
    shortened,
    text_of,
)

__all__ = [
    "CsvColumns",
    "CsvDialect",
    "JsonPaths",
    "Returned",
    "arrow_type",
    "ddl_of",
    "failed",
    "json_reader",
    "path_steps",
]

_STEP = re.compile(r"""\.([^.\[\]'"\s*?]+)|\[(\d+)\]|\['([^']+)'\]""")


def path_steps(path: str) -> tuple[str | int, ...]:
    """The steps of a JSON path: names and list positions.

    Args:
        path: ``$``, ``$.name``, ``$['a name']``, ``$.list[0]`` and what these make together.

    Raises:
        UsageError: anything else; wildcards, slices and filters would find several values.
    """
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
    """Reads a JSON document.

    A missing value and a null are null. A value that is not of its property's type makes the row
    unreadable, except where text or a number says the same without loss: ``"7"`` and ``7.0`` are the
    long 7, 7 is the string ``"7"``.
    """

    promote: tuple[Promotion, ...]

    def reader(self) -> Callable[[bytes], list[Value]]:
        """A function from a body to the promoted values; it raises `Unreadable`."""
        wanted = [(item.name, path_steps(item.path), converter(item.type)) for item in self.promote]
        document_of = json_reader()

        def read(body: bytes) -> list[Value]:
            document = document_of(text_of(body))
            values = []
            for name, steps, convert in wanted:
                value = document
                for step in steps:
                    value = _at(value, step)
                values.append(None if value is None else converted(name, convert, value))
            return values

        return read


def json_reader() -> Callable[[str], Value]:
    """What reads a JSON text; numbers with a point or exponent become `Decimal`. It raises `Unreadable`."""
    decode = json.JSONDecoder(parse_float=Decimal, parse_constant=_no_constant).decode

    def read(text: str) -> Value:
        try:
            return decode(text)
        except (ValueError, ArithmeticError) as error:
            raise Unreadable(f"not JSON: {shortened(str(error))}") from error
        except RecursionError as error:
            raise Unreadable("not JSON that can be read: nested too deeply") from error

    return read


def _at(value: Value, step: str | int) -> Value:
    if isinstance(step, str):
        return value.get(step) if isinstance(value, dict) else None
    return value[step] if isinstance(value, list) and step < len(value) else None


def _no_constant(name: str) -> Value:
    raise ValueError(f"{name} is no JSON number")


@dataclass(frozen=True, slots=True)
class CsvDialect:
    """How fields are told apart. A quote inside quotes is doubled, unless there is an `escape`."""

    separator: str = ","
    quote: str = '"'
    escape: str | None = None

    def fields(self, text: str) -> list[str]:
        """The fields of one line.

        Raises:
            Unreadable: the quotes don't match.
        """
        try:
            rows = list(
                csv.reader(
                    [text],
                    delimiter=self.separator,
                    quotechar=self.quote,
                    escapechar=self.escape,
                    doublequote=self.escape is None,
                    strict=True,
                )
            )
        except csv.Error as error:
            raise Unreadable(f"not CSV: {error}") from error
        return rows[0] if rows else []


@dataclass(frozen=True, slots=True)
class CsvColumns:
    """Reads a CSV line; the columns are found by name in the file's own header.

    An empty field is null. Numbers, booleans and timestamps are checked as in JSON text.
    """

    promote: tuple[Promotion, ...]
    dialect: CsvDialect = CsvDialect()

    def header(self, body: bytes) -> list[str]:
        """The names in a header line. Raises `Unreadable`."""
        return [name.strip() for name in self.dialect.fields(text_of(body))]

    def reader(self, header: Sequence[str]) -> Callable[[bytes], list[Value]]:
        """A function from a line to the promoted values under that header; it raises `Unreadable`."""
        csv.field_size_limit(2**31 - 1)
        width = len(header)
        places = {name: place for place, name in reversed(list(enumerate(header)))}
        wanted = [(item.name, places.get(item.path), converter(item.type)) for item in self.promote]
        absent = [item.path for item in self.promote if item.path not in places]

        def read(body: bytes) -> list[Value]:
            fields = self.dialect.fields(text_of(body))
            if absent:
                raise Unreadable(f"the header has no column {', '.join(absent)}")
            if len(fields) != width:
                raise Unreadable(f"{len(fields)} fields where the header has {width}")
            return [
                converted(name, convert, fields[place]) if place is not None and fields[place] else None
                for name, place, convert in wanted
            ]

        return read


@dataclass(frozen=True, slots=True)
class Returned:
    """Reads a body with a function of the user's, which returns the values by name.

    A name that it doesn't return is null. A function that raises makes its message unreadable, with its own words.
    """

    function: Function
    promote: tuple[Promotion, ...]

    def reader(self) -> Callable[[bytes], list[Value]]:
        """A function from a body to the values; it raises `Unreadable`. Raises `UsageError`: no such function."""
        call, name = self.function.load(), self.function.name
        wanted = [(item.name, item.path, _from_python(converter(item.type))) for item in self.promote]

        def read(body: bytes) -> list[Value]:
            try:
                found = call(body)
            except (Exception, SystemExit) as error:
                raise failed(name, error) from error
            if not isinstance(found, Mapping):
                raise Unreadable(f"{name}: returned {type(found).__name__}, not a mapping from names to values")
            values = []
            for item, path, convert in wanted:
                value = found.get(path)
                values.append(None if value is None else converted(item, convert, value))
            return values

        return read


def failed(function: str, error: BaseException) -> Unreadable:
    """What is said of a body at which a function of the user's raises."""
    told = " ".join(str(error).split())
    return Unreadable(f"{function}: {type(error).__name__}: {shortened(told, 300)}".removesuffix(": "))


def _from_python(convert: Converter) -> Converter:
    """The conversion of a value that may be any of Python's and not only one that JSON has."""
    return lambda value: convert(_as_in_json(value))


def _as_in_json(value: Value) -> Value:
    if isinstance(value, np.generic):
        value = value.item()
    match value:
        case float():
            return Decimal(repr(value))
        case date():
            return value.isoformat()
        case bytes() | bytearray():
            return value.decode()
    return value
