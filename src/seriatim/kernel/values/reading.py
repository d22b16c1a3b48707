"""One reading of numbers and times: which values of Python, NumPy, Arrow and Spark are a sequence or a size.

The table of all rules is in ``docs/reference/sequence-numbers.md``. Values come from libraries that this module doesn't import;
it knows their scalars by their methods: ``as_py`` (Arrow) and ``item`` (NumPy). Spark reads columns by the same table, with
the patterns and bounds from here (``spark/frames/readings.py``).
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from seriatim.kernel.values.outcome import Reason

#: The last ticket number of an epoch unless a location declares another.
LAST_NUMBER = 2**53 - 1
LOWEST, HIGHEST = -(2**63), 2**63 - 1
#: The largest float, by its bits, up to which each whole number has a float; a larger float may have been rounded.
LARGEST_EXACT: Mapping[int, int] = {16: 2**11 - 1, 32: 2**24 - 1, 64: 2**53 - 1}

_BLANKS = " \t\r\n"
_AROUND = r"[ \t\r\n]*"
#: Patterns that mean the same in Python and in Java; each is for a whole text.
BLANK_TEXT = _AROUND
WHOLE_TEXT = rf"{_AROUND}([+-]?)([0-9]+){_AROUND}"
#: A position in PostgreSQL's log: 64 bits.
LSN_TEXT = r"([0-9A-Fa-f]{1,8})/([0-9A-Fa-f]{1,8})"
_ZONE = r"(?:Z|[+-](?:0[0-9]|1[0-4]):[0-5][0-9])"
_DAY = r"(?!0000)[0-9]{4}-[0-9]{2}-[0-9]{2}"
_CLOCK = r"[T ](?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:\.[0-9]{1,9})?)?"
TIME_TEXT = rf"{_AROUND}{_DAY}(?:{_CLOCK}{_ZONE}?)?{_AROUND}"
#: A `TIME_TEXT` with a time zone.
ZONED_TEXT = rf"{_AROUND}{_DAY}{_CLOCK}{_ZONE}{_AROUND}"

_WHOLE, _TIME, _LSN = re.compile(WHOLE_TEXT), re.compile(TIME_TEXT), re.compile(LSN_TEXT)
_MOST_DIGITS = 19
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
#: Seconds at and above it are no time.
_END_OF_TIME = 2**62 / 1e6

_OF_SIZE = {
    Reason.SEQUENCE_NOT_A_NUMBER: Reason.SIZE_NOT_A_NUMBER,
    Reason.SEQUENCE_INEXACT: Reason.SIZE_INEXACT,
    Reason.SEQUENCE_OVERFLOWS: Reason.SIZE_OVERFLOWS,
}


def ticket_position(epoch: int, number: int, last_number: int = LAST_NUMBER) -> int:
    """One number for a ticket, contiguous over turn-overs, so that all rules apply to tickets unchanged."""
    return epoch * last_number + number


def of_size(reason: Reason) -> Reason:
    return _OF_SIZE[reason]


def whole_number(value: Any) -> int | Reason:
    """Return a value as int64, or the reason why it is none; a ticket isn't one. A `Reason` is an `int`, too: test for it first."""
    kind = type(value)
    if kind is int:
        return value if LOWEST <= value <= HIGHEST else Reason.SEQUENCE_OVERFLOWS
    if kind is str:
        return _of_text(value)
    if kind is float:
        return _of_float(value, 64)
    return _of_plain(unwrapped(value), _bits(value))


def sequence_number(value: Any) -> int | Reason:
    """The number of a sequence: the position of a ticket, otherwise as `whole_number`."""
    if type(value) is int and LOWEST <= value <= HIGHEST:
        return value
    plain = unwrapped(value)
    if isinstance(plain, tuple) and len(plain) == 2:
        return _of_ticket(*plain)
    if isinstance(plain, Mapping) and "epoch" in plain and "number" in plain:
        return _of_ticket(plain["epoch"], plain["number"])
    return whole_number(value)


def moment(value: Any) -> int | Reason:
    """Return the microseconds since 1970 of a time, or the reason why a value is no time. A time without a time zone is in UTC."""
    plain: Any = _in_microseconds(unwrapped(value))
    result: int | Reason = Reason.SEQUENCE_NOT_A_TIME
    match plain:
        case None:
            result = Reason.SEQUENCE_MISSING
        case bool():
            pass
        case datetime():
            result = _since_epoch(plain)
        case date():
            result = _since_epoch(datetime(plain.year, plain.month, plain.day, tzinfo=UTC))
        case str():
            result = _of_time(plain)
        case int() | float() | Decimal() if _finite(plain):
            result = _of_seconds(plain)
    return result


def _of_seconds(value: Any) -> int | Reason:
    return round(value * 1_000_000) if abs(value) < _END_OF_TIME else Reason.SEQUENCE_OVERFLOWS


def _since_epoch(time: datetime) -> int:
    aware = time if time.utcoffset() is not None else time.replace(tzinfo=UTC)
    return (aware - _EPOCH) // _MICROSECOND


def unwrapped(value: Any) -> Any:
    """Return the Python value of a scalar of Arrow or NumPy; times of NumPy and other values unchanged."""
    kind: Any = type(value)
    if kind.__module__ == "builtins" or _kind(value) in ("m", "M"):
        return value
    unwrap = getattr(kind, "as_py", None) or getattr(kind, "item", None)
    if unwrap is None or getattr(value, "ndim", None):
        return value
    try:
        return unwrap(value)
    except (TypeError, ValueError):  # a method of that name of another type
        return value


def _kind(value: Any) -> str | None:
    """The letter of a NumPy type, such as ``f`` for floats; None for any other value."""
    kind = getattr(getattr(value, "dtype", None), "kind", None)
    return kind if isinstance(kind, str) else None


def _bits(value: Any) -> int:
    """The bits of a float; 64 for everything else."""
    if _kind(value) == "f":
        return min(int(value.dtype.itemsize) * 8, 64)
    return {"halffloat": 16, "float": 32}.get(str(getattr(value, "type", None)), 64)


def _of_plain(value: Any, bits: int) -> int | Reason:
    """The number of a Python value; `bits`: of a float."""
    number: int | Reason = Reason.SEQUENCE_NOT_A_NUMBER
    match value:
        case None:
            number = Reason.SEQUENCE_MISSING
        case bool():
            pass
        case str():
            number = _of_text(value)
        case float():
            number = _of_float(value, bits)
        case Decimal():
            number = _of_decimal(value)
        case _ if _kind(value) not in ("m", "M"):
            number = _of_index(value)
    return number


def _of_index(value: Any) -> int | Reason:
    try:
        number = operator.index(value)
    except TypeError:
        return Reason.SEQUENCE_NOT_A_NUMBER
    return number if LOWEST <= number <= HIGHEST else Reason.SEQUENCE_OVERFLOWS


def _of_text(text: str) -> int | Reason:
    match = _WHOLE.fullmatch(text)
    if match is None and (lsn := _LSN.fullmatch(text)) is not None:
        number = (int(lsn[1], 16) << 32) | int(lsn[2], 16)
        return number if number <= HIGHEST else Reason.SEQUENCE_OVERFLOWS
    if match is None:
        return Reason.SEQUENCE_NOT_A_NUMBER if text.strip(_BLANKS) else Reason.SEQUENCE_MISSING
    sign, digits = match.groups()
    if len(digits) > _MOST_DIGITS:  # Python refuses to read a text of many thousands of digits
        digits = digits.lstrip("0") or "0"
        if len(digits) > _MOST_DIGITS:
            return Reason.SEQUENCE_OVERFLOWS
    number = int(sign + digits)
    return number if LOWEST <= number <= HIGHEST else Reason.SEQUENCE_OVERFLOWS


def _of_float(value: float, bits: int) -> int | Reason:
    if not value.is_integer():  # infinite and not a number neither
        return Reason.SEQUENCE_NOT_A_NUMBER
    return int(value) if abs(value) <= LARGEST_EXACT[bits] else Reason.SEQUENCE_INEXACT


def _of_decimal(value: Decimal) -> int | Reason:
    if not value.is_finite():
        return Reason.SEQUENCE_NOT_A_NUMBER
    if not value:
        return 0
    # A large exponent makes a number of that many digits: it is checked before it is written out.
    if value.adjusted() >= _MOST_DIGITS:
        exponent = value.as_tuple().exponent
        is_whole = isinstance(exponent, int) and exponent >= 0
        return (
            Reason.SEQUENCE_OVERFLOWS
            if is_whole or value == value.to_integral_value()
            else (Reason.SEQUENCE_NOT_A_NUMBER)
        )
    if value != value.to_integral_value():
        return Reason.SEQUENCE_NOT_A_NUMBER
    number = int(value)
    return number if LOWEST <= number <= HIGHEST else Reason.SEQUENCE_OVERFLOWS


def _of_ticket(epoch: Any, number: Any) -> int | Reason:
    if unwrapped(epoch) is None or unwrapped(number) is None:
        return Reason.SEQUENCE_MISSING
    parts = [Reason.SEQUENCE_NOT_A_NUMBER if _is_written(part) else whole_number(part) for part in (epoch, number)]
    if any(isinstance(part, Reason) for part in parts) or parts[0] < 0 or parts[1] < 1:
        return Reason.SEQUENCE_NOT_A_NUMBER
    position = ticket_position(*parts)
    return position if position <= HIGHEST else Reason.SEQUENCE_OVERFLOWS


def _is_written(value: Any) -> bool:
    """Whether a part of a ticket is text, a float or a decimal: only integers number a ticket."""
    return isinstance(unwrapped(value), str | float | Decimal)


def _of_time(text: str) -> int | Reason:
    if _TIME.fullmatch(text) is None:
        return Reason.SEQUENCE_NOT_A_TIME if text.strip(_BLANKS) else Reason.SEQUENCE_MISSING
    try:
        time = datetime.fromisoformat(text.strip(_BLANKS))
    except ValueError:  # such as the 30th of February
        return Reason.SEQUENCE_NOT_A_TIME
    return _since_epoch(time)


def _in_microseconds(value: Any) -> Any:
    """Convert a time of NumPy to a datetime, no time to None, and integers of other libraries to Python's."""
    if _kind(value) == "M":
        value = value.astype("datetime64[us]").item()
    if isinstance(value, datetime) and value != value:  # noqa: PLR0124 - pandas has a datetime that is none
        return None
    if isinstance(value, int | float | str | date | Decimal) or value is None:
        return value
    number = _of_index(value)
    return value if isinstance(number, Reason) else number


def _finite(value: float | Decimal) -> bool:
    return value.is_finite() if isinstance(value, Decimal) else isinstance(value, int) or math.isfinite(value)
