"""Values of properties: the conversion to their types.

It is done here and not by an engine because Spark's own functions can't distinguish a missing value from a wrong one
and cut 3.7 down to 3. A value comes in its JSON form (text, a whole number, a `Decimal`, true, false, a list or
mapping) and is converted to its property's type, or refused.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from decimal import Context, Decimal
from typing import Any

import numpy as np

from seriatim.errors import shown
from seriatim.kernel.filters.filter import ValueKind, type_from
from seriatim.kernel.values.outcome import Reason
from seriatim.kernel.values.reading import whole_number

Value = Any
Converter = Callable[[Value], Value]
#: From a document to a value in it; None: it is absent or null. Raises `Unreadable`.
Find = Callable[[Any], Value]
#: The promoted values of one message: the value of each property, null where it is absent, null or wrong; and the faults of all wrong
#: properties (None: none).
Promoted = tuple[list[Value], str | None]

# There is one way to match a text, so its length doesn't matter.
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,5})?", re.ASCII)
_EXACT = Context(prec=100)
_LONGEST_PROBLEM = 1_000
# A whole number of more bits is beyond the doubles.
_LARGEST_BITS = 1024


class Unreadable(Exception):
    """A row that is not a message; the text is the reason."""


def text_of(body: bytes) -> str:
    """Return a body as text, without a byte order mark. Raises `Unreadable`."""
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise Unreadable(f"not UTF-8 at byte {error.start}") from error
    return text.removeprefix("\ufeff")


def converted(name: str, convert: Converter, value: Value) -> Value:
    try:
        return convert(value)
    except (ValueError, ArithmeticError) as error:
        raise Unreadable(f"{name}: {error}") from error


def finder(name: str, lookups: Sequence[Find], convert: Converter) -> Find:
    """A function that finds the property `name`: the first existing value of the lookups, converted to its type. A value that doesn't fit
    is not skipped for a later one: it is the property's value, and invalid.
    """
    if len(lookups) == 1:
        (only,) = lookups

        def find(document: Any) -> Value:
            value = only(document)
            return None if value is None else converted(name, convert, value)

        return find

    def find_first(document: Any) -> Value:
        for lookup in lookups:
            value = lookup(document)
            if value is not None:
                return converted(name, convert, value)
        return None

    return find_first


def promoted(finds: Sequence[Find], document: Any) -> Promoted:
    """Return the values that are found in a document. An invalid property doesn't affect the others."""
    try:
        return [find(document) for find in finds], None
    except Unreadable:
        pass
    values: list[Value] = []
    problems: list[str] = []
    for find in finds:
        try:
            values.append(find(document))
        except Unreadable as error:
            values.append(None)
            problems.append(str(error))
    return values, "; ".join(problems)


def converter(written: str) -> Converter:
    """Return a function that converts values to a property's type; it raises `ValueError` or `ArithmeticError`."""
    kind = type_from(written)
    if kind.kind is ValueKind.DECIMAL:
        return lambda value: _decimal(value, kind.precision, kind.scale)
    return _PLAIN[kind.kind]


def converter_of(name: str, written: str) -> Converter:
    """Like `converter`, for the property of this name; ``type`` has to be a possible type of a message."""
    return _message_type if name == "type" else converter(written)


def as_in_json(value: Value) -> Value:
    """Return a Python value in its JSON form: a double as the number that it is written as, a timestamp as ISO 8601."""
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


def _string(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict | list):
        raise _wrong(value, "a string")
    text = value if isinstance(value, str) else _written(value)
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise ValueError("half a surrogate pair is no text") from None
    return text


def _message_type(value: Value) -> str:
    text = _string(value)
    if not text or "\0" in text:
        raise ValueError(f"{shortened(text)!r} can't be the type of a message")
    return text


def _long(value: Value) -> int:
    number = whole_number(value)
    if number is Reason.SEQUENCE_OVERFLOWS:
        raise ValueError(f"{value_text(value)} is beyond the range of a long")
    if number is Reason.SEQUENCE_INEXACT:
        raise ValueError(f"{value_text(value)} is a float too large to be an exact long")
    if isinstance(number, Reason):
        raise _wrong(value, "a long")
    return number


def _double(value: Value) -> float:
    if isinstance(value, bool) or not _is_number(value):
        raise _wrong(value, "a double")
    # Python raises an `OverflowError` for a whole number beyond the doubles, without a word of the value.
    number = math.inf if isinstance(value, int) and value.bit_length() > _LARGEST_BITS else float(value)
    if not math.isfinite(number):
        raise ValueError(f"{value_text(value)} is beyond the range of a double")
    return number


def _decimal(value: Value, precision: int, scale: int) -> Decimal:
    if isinstance(value, bool) or not _is_number(value):
        raise _wrong(value, "a number")
    number = Decimal(value)
    if number and (number.adjusted() >= precision - scale or number.adjusted() < -scale):
        raise ValueError(f"{value_text(value)} doesn't fit decimal({precision},{scale})")
    fitted = number.quantize(Decimal(1).scaleb(-scale), context=_EXACT)
    if fitted != number:
        raise ValueError(f"{value_text(value)} doesn't fit decimal({precision},{scale})")
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
    """Read a timestamp in ISO 8601; without an offset it is UTC. Numbers are no timestamps, because they have no unit."""
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            raise _wrong(value, "a timestamp (ISO 8601)") from None
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    raise _wrong(value, "a timestamp (ISO 8601)")


_PLAIN = {
    ValueKind.STRING: _string,
    ValueKind.LONG: _long,
    ValueKind.DOUBLE: _double,
    ValueKind.BOOLEAN: _boolean,
    ValueKind.TIMESTAMP: _timestamp,
}


def _wrong(value: Value, what: str) -> ValueError:
    match value:
        case dict():
            told = "an object"
        case list():
            told = "a list"
        case bool():
            told = "true" if value else "false"
        case str():
            told = repr(shortened(value))
        case _:
            told = value_text(value)
    return ValueError(f"{told} is not {what}")


def _written(value: Value) -> str:
    """Return a value as text. Raises `ValueError` for a whole number that Python doesn't write out."""
    try:
        return str(value)
    except ValueError:
        raise ValueError(f"{value_text(value)} is too long for a string") from None


def value_text(value: Value) -> str:
    """Return a number, shortened for a reason."""
    return shown(value, 60) if isinstance(value, int) else shortened(str(value))


def shortened(text: str, most: int = 60) -> str:
    return text if len(text) <= most else f"{text[:most]}…"


def problem_text(problem: str) -> str:
    """Return a problem as text that PostgreSQL can store, whatever characters a body's names contain."""
    return shortened(problem, _LONGEST_PROBLEM).encode(errors="backslashreplace").decode().replace("\0", "\\0")
