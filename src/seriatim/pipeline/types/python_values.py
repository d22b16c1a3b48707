"""Properties given by an application as Python values, not as JSON."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from decimal import Decimal

from seriatim.kernel.filters.filter import MOST_DIGITS, ValueKind, type_from
from seriatim.kernel.values.reading import unwrapped
from seriatim.pipeline.bodies.property_values import Converter, Value, as_in_json, converter, shortened, value_text

_INT64 = 2**63


def given_converter(written: str) -> Converter:
    """A function that converts values to a property's type; it raises `ValueError` or `ArithmeticError`. The rules are those of values in a
    body; also a scalar of NumPy or Arrow is one. A `datetime` without a time zone is in UTC.
    """
    kind, convert = type_from(written).kind, converter(written)

    def converted(value: Value) -> Value:
        if kind is ValueKind.LONG:
            return convert(value)
        value = unwrapped(value)
        if isinstance(value, float | datetime):
            if kind is ValueKind.TIMESTAMP and isinstance(value, datetime):
                return _utc(value)
            if kind is ValueKind.DOUBLE and isinstance(value, float) and math.isfinite(value):
                return float(value)
            value = as_in_json(value)
        elif not isinstance(value, str | int | Decimal):
            raise _no_property(value)
        return without_nul(convert(value))

    # Nearly all values have the right type.
    if kind is ValueKind.STRING:
        return lambda value: value if _is_plain(value) else converted(value)
    if kind is ValueKind.LONG:
        return lambda value: value if type(value) is int and -_INT64 <= value < _INT64 else converted(value)
    return converted


def kept(value: Value) -> Value:
    """Return a value without a declared type: it stays as it is, if a property can have such a value."""
    value = unwrapped(value)
    match value:
        case str():
            return value if _is_plain(value) else without_nul(value)
        case datetime():
            return _utc(value)
        case int():
            fits = -_INT64 <= value < _INT64
        case float():
            fits = math.isfinite(value)
        case Decimal():
            fits = value.is_finite() and _digits(value) <= MOST_DIGITS
        case _:
            raise _no_property(value)
    if not fits:
        raise ValueError(f"{value_text(value)} is not finite, or has more digits than a property can have")
    return value


def without_nul(value: Value) -> Value:
    """Check that a value isn't a text that PostgreSQL can't store, and return it. Raises `ValueError`."""
    if isinstance(value, str):
        if "\0" in value:
            raise ValueError(f"{shortened(value)!r} has a NUL")
        if not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:
                raise ValueError("half a surrogate pair is no text") from None
    return value


def _is_plain(value: Value) -> bool:
    return type(value) is str and value.isascii() and "\0" not in value


def _utc(value: datetime) -> datetime:
    return value.astimezone(UTC) if value.utcoffset() is not None else value.replace(tzinfo=UTC)


def _digits(value: Decimal) -> int:
    """Return the number of digits when written without an exponent, computed without writing it out."""
    exponent = value.as_tuple().exponent
    places = -exponent if isinstance(exponent, int) and exponent < 0 else 0
    return max(value.adjusted() + 1, 0) + places if value else max(places, 1)


def _no_property(value: Value) -> ValueError:
    return ValueError(f"{type(value).__name__} can't be a property's value")
