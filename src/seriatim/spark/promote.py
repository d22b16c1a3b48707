"""Lifting properties out of bodies: one row of text in, the promoted values or a reason out.

Pure Python without Spark. It is done here and not by Spark's own functions because those can't tell a
missing value from a wrong one, cut 3.7 down to 3, and give up on JSON documents above 16 MiB.
"""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa

from seriatim.errors import UsageError
from seriatim.pipeline.declaration import Promotion

__all__ = ["CsvColumns", "CsvDialect", "JsonPaths", "Unreadable", "arrow_type", "ddl_of", "path_steps"]

Value = Any
Converter = Callable[[Value], Value]

_LONG = re.compile(r"[+-]?\d{1,64}", re.ASCII)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,5})?", re.ASCII)
_STEP = re.compile(r"""\.([^.\[\]'"\s*?]+)|\[(\d+)\]|\['([^']+)'\]""")
_DECIMAL = re.compile(r"decimal(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?")
_PLAIN_TYPES = {
    "string": "string",
    "long": "bigint",
    "double": "double",
    "boolean": "boolean",
    "timestamp": "timestamp",
}
_SHOWN = 60
_EXACT = Context(prec=100)


class Unreadable(Exception):
    """A row that is not a message; the text is the reason."""


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


def ddl_of(kind: str) -> str:
    """The Spark type of a property's type.

    Raises:
        UsageError: no such type.
    """
    decimal = _DECIMAL.fullmatch(kind)
    if decimal is not None:
        precision, scale = int(decimal[1] or 10), int(decimal[2] or 0)
        if 1 <= precision <= 38 and scale <= precision:
            return f"decimal({precision},{scale})"
    elif kind in _PLAIN_TYPES:
        return _PLAIN_TYPES[kind]
    raise UsageError(f"{kind!r} is not a property's type", remedy=f"one of {', '.join(_PLAIN_TYPES)}, decimal(p,s)")


def arrow_type(kind: str) -> pa.DataType:
    """The Arrow type of a property's type."""
    ddl = ddl_of(kind)
    if ddl.startswith("decimal"):
        return pa.decimal128(*_precision(ddl))
    return {
        "string": pa.string(),
        "bigint": pa.int64(),
        "double": pa.float64(),
        "boolean": pa.bool_(),
        "timestamp": pa.timestamp("us", "UTC"),
    }[ddl]


def _precision(ddl: str) -> tuple[int, int]:
    precision, scale = ddl[len("decimal(") : -1].split(",")
    return int(precision), int(scale)


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
        wanted = [(item.name, path_steps(item.path), _converter(item.type)) for item in self.promote]
        decode = json.JSONDecoder(parse_float=Decimal, parse_constant=_no_constant).decode

        def read(body: bytes) -> list[Value]:
            text = _text(body)
            try:
                document = decode(text)
            except (ValueError, ArithmeticError) as error:
                raise Unreadable(f"not JSON: {_short(str(error))}") from error
            except RecursionError as error:
                raise Unreadable("not JSON that can be read: nested too deeply") from error
            values = []
            for name, steps, convert in wanted:
                value = document
                for step in steps:
                    value = _at(value, step)
                values.append(None if value is None else _converted(name, convert, value))
            return values

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
        return [name.strip() for name in self.dialect.fields(_text(body))]

    def reader(self, header: Sequence[str]) -> Callable[[bytes], list[Value]]:
        """A function from a line to the promoted values under that header; it raises `Unreadable`."""
        csv.field_size_limit(2**31 - 1)
        width = len(header)
        places = {name: place for place, name in reversed(list(enumerate(header)))}
        wanted = [(item.name, places.get(item.path), _converter(item.type)) for item in self.promote]
        absent = [item.path for item in self.promote if item.path not in places]

        def read(body: bytes) -> list[Value]:
            fields = self.dialect.fields(_text(body))
            if absent:
                raise Unreadable(f"the header has no column {', '.join(absent)}")
            if len(fields) != width:
                raise Unreadable(f"{len(fields)} fields where the header has {width}")
            return [
                _converted(name, convert, fields[place]) if place is not None and fields[place] else None
                for name, place, convert in wanted
            ]

        return read


def _text(body: bytes) -> str:
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise Unreadable(f"not UTF-8 at byte {error.start}") from error
    return text.removeprefix("\ufeff")


def _converted(name: str, convert: Converter, value: Value) -> Value:
    try:
        return convert(value)
    except (ValueError, ArithmeticError) as error:
        raise Unreadable(f"{name}: {error}") from error


def _converter(kind: str) -> Converter:
    ddl = ddl_of(kind)
    if ddl.startswith("decimal"):
        precision, scale = _precision(ddl)
        return lambda value: _decimal(value, precision, scale)
    return {"string": _string, "bigint": _long, "double": _double, "boolean": _boolean, "timestamp": _timestamp}[ddl]


def _string(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict | list):
        raise _wrong(value, "a string")
    text = value if isinstance(value, str) else str(value)
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise ValueError("half a surrogate pair is no text") from None
    return text


def _long(value: Value) -> int:
    number = value
    if isinstance(value, str):
        number = int(value) if _LONG.fullmatch(value) else value
    elif isinstance(value, Decimal):
        # A large exponent is a number of that many digits: it is looked at before it is written out.
        number = int(value) if value.adjusted() < 20 and value == value.to_integral_value() else value
    if isinstance(number, bool) or not isinstance(number, int):
        raise _wrong(value, "a long")
    if not -(2**63) <= number < 2**63:
        raise ValueError(f"{_short(str(value))} is beyond the range of a long")
    return number


def _double(value: Value) -> float:
    if isinstance(value, bool) or not _is_number(value):
        raise _wrong(value, "a double")
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{_short(str(value))} is beyond the range of a double")
    return number


def _decimal(value: Value, precision: int, scale: int) -> Decimal:
    if isinstance(value, bool) or not _is_number(value):
        raise _wrong(value, "a number")
    number = Decimal(value)
    if number and (number.adjusted() >= precision - scale or number.adjusted() < -scale):
        raise ValueError(f"{_short(str(value))} doesn't fit decimal({precision},{scale})")
    fitted = number.quantize(Decimal(1).scaleb(-scale), context=_EXACT)
    if fitted != number:
        raise ValueError(f"{_short(str(value))} doesn't fit decimal({precision},{scale})")
    return fitted


def _is_number(value: Value) -> bool:
    return isinstance(value, int | Decimal) or (isinstance(value, str) and _NUMBER.fullmatch(value) is not None)


def _boolean(value: Value) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in {"true", "false"}:
        return value.lower() == "true"
    raise _wrong(value, "a boolean")


def _timestamp(value: Value) -> datetime:
    """ISO 8601; without an offset it is UTC. Numbers don't say their unit, so they are none."""
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            raise _wrong(value, "a timestamp (ISO 8601)") from None
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    raise _wrong(value, "a timestamp (ISO 8601)")


def _wrong(value: Value, what: str) -> ValueError:
    match value:
        case dict():
            shown = "an object"
        case list():
            shown = "a list"
        case bool():
            shown = "true" if value else "false"
        case str():
            shown = repr(_short(value))
        case _:
            shown = _short(str(value))
    return ValueError(f"{shown} is not {what}")


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
