"""The table of what a sequence is: values of every kind that an engine may get, and the number or the reason of each.

Each engine runs the values that it can carry. `TEXTS`, `WHOLE`, … are by the type of a Spark column; what only Python has
is in `OBJECTS`. Sizes of sets are read alike, but for tickets.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from seriatim.errors import shown
from seriatim.kernel.values.outcome import Reason

__all__ = ["DECIMALS", "DOUBLES", "FLOATS", "OBJECTS", "TEXTS", "TICKETS", "TIMES", "TIME_TEXTS", "WHOLE", "Reading"]

_NONE, _MISSING = Reason.SEQUENCE_NOT_A_NUMBER, Reason.SEQUENCE_MISSING
_LARGE, _INEXACT, _NO_TIME = Reason.SEQUENCE_OVERFLOWS, Reason.SEQUENCE_INEXACT, Reason.SEQUENCE_NOT_A_TIME
_MOST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Reading:
    """A value, and the number that it is, or the reason why it is none."""

    value: Any
    gives: int | Reason

    def __str__(self) -> str:
        return f"{type(self.value).__name__} {shown(self.value, 40)}"


WHOLE = tuple(
    Reading(*one)
    for one in (
        (0, 0),
        (1, 1),
        (-7, -7),
        (_MOST, _MOST),
        (-(2**63), -(2**63)),
        (2**53 + 1, 2**53 + 1),
        (None, _MISSING),
    )
)
TEXTS = tuple(
    Reading(*one)
    for one in (
        ("10", 10),
        ("0000000010", 10),
        ("0" * 5000 + "10", 10),
        ("+10", 10),
        ("-10", -10),
        ("-0", 0),
        ("00", 0),
        (" 10 ", 10),
        ("\t10\r\n", 10),
        ("9007199254740993", 2**53 + 1),
        ("9223372036854775807", _MOST),
        ("-9223372036854775808", -(2**63)),
        ("9223372036854775808", _LARGE),
        ("-9223372036854775809", _LARGE),
        ("1" * 5000, _LARGE),
        (None, _MISSING),
        ("", _MISSING),
        (" \t", _MISSING),
        ("1.0", _NONE),
        ("10.", _NONE),
        ("1e3", _NONE),
        ("1,000", _NONE),
        ("1 000", _NONE),
        ("1_000", _NONE),
        ("0x10", _NONE),
        ("+ 10", _NONE),
        ("--10", _NONE),
        ("+", _NONE),
        ("ten", _NONE),
        ("true", _NONE),
        ("NaN", _NONE),
        ("٣", _NONE),
        ("\uff11\uff10", _NONE),
        ("\u221210", _NONE),
        ("\u00a010", _NONE),
        ("\u000b10", _NONE),
        ("10L", _NONE),
        ("10\n11", _NONE),
    )
)
DOUBLES = tuple(
    Reading(*one)
    for one in (
        (1.0, 1),
        (-0.0, 0),
        (-3.0, -3),
        (2.0**53 - 1, 2**53 - 1),
        (float(2**53 + 1), _INEXACT),
        (2.0**53, _INEXACT),
        (-(2.0**53), _INEXACT),
        (1e300, _INEXACT),
        (1.5, _NONE),
        (1e-300, _NONE),
        (float("nan"), _NONE),
        (float("inf"), _NONE),
        (float("-inf"), _NONE),
        (None, _MISSING),
    )
)
#: Of 32 bits.
FLOATS = tuple(
    Reading(None if one[0] is None else np.float32(one[0]), one[1])
    for one in (
        (1.0, 1),
        (2.0**24 - 1, 2**24 - 1),
        (2.0**24 + 1, _INEXACT),
        (-(2.0**24), _INEXACT),
        (1.5, _NONE),
        (float("nan"), _NONE),
        (float("inf"), _NONE),
        (None, _MISSING),
    )
)
#: Each fits into 38 digits, 10 of them behind the point.
DECIMALS = tuple(
    Reading(None if one[0] is None else Decimal(one[0]), one[1])
    for one in (
        ("10.00", 10),
        ("-10", -10),
        ("9007199254740993", 2**53 + 1),
        ("9223372036854775807", _MOST),
        ("9223372036854775808.0", _LARGE),
        ("9223372036854775807.5", _NONE),
        ("1.5", _NONE),
        ("0.0000000001", _NONE),
        (None, _MISSING),
    )
)
#: An epoch and a number.
TICKETS = tuple(
    Reading(*one)
    for one in (
        ((0, 1), 1),
        ((0, 2**53 - 1), 2**53 - 1),
        ((1, 1), 2**53),
        ((0, 0), _NONE),
        ((-1, 5), _NONE),
        ((2**31 - 1, 1), _LARGE),
        ((None, 5), _MISSING),
        ((0, None), _MISSING),
        (None, _MISSING),
    )
)
_DAY = 86_400_000_000
#: The microseconds since 1970 of a text.
TIME_TEXTS = tuple(
    Reading(*one)
    for one in (
        ("1970-01-02", _DAY),
        ("1970-01-01T00:00:01", 1_000_000),
        ("1970-01-01 00:00:01", 1_000_000),
        ("1970-01-01T00:01", 60_000_000),
        ("1970-01-01T00:00:01Z", 1_000_000),
        ("1970-01-01T02:00:01+02:00", 1_000_000),
        ("1969-12-31T22:30:00-01:30", 0),
        ("1970-01-01T00:00:00.000001", 1),
        ("1970-01-01T00:00:00.5Z", 500_000),
        ("1970-01-01T00:00:00.123456789Z", 123_456),
        (" 1970-01-02\n", _DAY),
        ("1969-12-31T23:59:59.999999", -1),
        ("0001-01-01", (date(1, 1, 1) - date(1970, 1, 1)) // timedelta(days=1) * _DAY),
        ("1970-02-30", _NO_TIME),
        ("1970-13-01", _NO_TIME),
        ("0000-01-01", _NO_TIME),
        ("1970", _NO_TIME),
        ("1970-1-2", _NO_TIME),
        ("19700102", _NO_TIME),
        ("1970-01-02Z", _NO_TIME),
        ("1970-01-01T24:00:00", _NO_TIME),
        ("1970-01-01T00:00:60", _NO_TIME),
        ("1970-01-01T00:00:01 Europe/Vienna", _NO_TIME),
        ("12:00:00", _NO_TIME),
        ("1700000000", _NO_TIME),
        ("now", _NO_TIME),
        ("", _MISSING),
        (None, _MISSING),
    )
)


class _Anything:
    """An object that is nothing that can be read."""

    def __repr__(self) -> str:
        return "an object"


class _Index:
    def __index__(self) -> int:
        return 7

    def __repr__(self) -> str:
        return "an object with __index__"


#: What a program has besides: scalars of NumPy and Arrow, and values that are no numbers.
OBJECTS = tuple(
    Reading(*one)
    for one in (
        (2**63, _LARGE),
        (-(2**63) - 1, _LARGE),
        (10**5000, _LARGE),
        (True, _NONE),
        (False, _NONE),
        (b"10", _NONE),
        (bytearray(b"10"), _NONE),
        ([1], _NONE),
        ({"a": 1}, _NONE),
        ((1,), _NONE),
        ((1, 2, 3), _NONE),
        ((0, "1"), _NONE),
        ((0, 1.0), _NONE),
        ((True, 1), _NONE),
        (1 + 0j, _NONE),
        (Fraction(10), _NONE),
        (datetime(1970, 1, 2, tzinfo=UTC), _NONE),
        (timedelta(days=1), _NONE),
        (_Anything(), _NONE),
        (_Index(), 7),
        (Decimal("NaN"), _NONE),
        (Decimal("Infinity"), _NONE),
        (Decimal("1E+3"), 1000),
        (Decimal("0E+1000000"), 0),
        (Decimal("1E+1000000"), _LARGE),
        (Decimal("1E-1000000"), _NONE),
        (Decimal("12345678901234567890.5"), _NONE),
        ({"epoch": 0, "number": 3}, 3),
        ({"epoch": 0, "number": None}, _MISSING),
        (np.int64(10), 10),
        (np.uint8(10), 10),
        (np.uint64(2**63), _LARGE),
        (np.float64(10), 10),
        (np.float64(2**53), _INEXACT),
        (np.float16(2048), _INEXACT),
        (np.float16(2047), 2047),
        (np.float32("nan"), _NONE),
        (np.bool_(True), _NONE),
        (np.str_("010"), 10),
        (np.bytes_(b"10"), _NONE),
        (np.datetime64(10, "ns"), _NONE),
        (np.timedelta64(10, "ns"), _NONE),
        (np.array(10), 10),
        (np.array([10]), _NONE),
        (np.array([10, 11]), _NONE),
        ((np.int64(0), np.int32(3)), 3),
        (pa.scalar(10), 10),
        (pa.scalar(2**63, pa.uint64()), _LARGE),
        (pa.scalar(10.0), 10),
        (pa.scalar(2.0**24, pa.float32()), _INEXACT),
        (pa.scalar(2.0**24, pa.float64()), 2**24),
        (pa.scalar(Decimal("10.00")), 10),
        (pa.scalar("0010"), 10),
        (pa.scalar(True), _NONE),
        (pa.scalar(b"10"), _NONE),
        (pa.scalar(None, pa.int64()), _MISSING),
        (pa.scalar({"epoch": 0, "number": 3}), 3),
        (pa.scalar(datetime(1970, 1, 2, tzinfo=UTC)), _NONE),
    )
)
#: Times that a program has; seconds are for programs only.
TIMES = tuple(
    Reading(*one)
    for one in (
        (1, 1_000_000),
        (-0.5, -500_000),
        (Decimal("0.000001"), 1),
        (datetime(1970, 1, 2), _DAY),  # noqa: DTZ001 - it is in UTC
        (datetime(1970, 1, 2, tzinfo=UTC), _DAY),
        (date(1970, 1, 2), _DAY),
        (np.float64(0.5), 500_000),
        (np.float32(0.5), 500_000),
        (np.int64(1), 1_000_000),
        (np.datetime64("1970-01-02"), _DAY),
        (np.datetime64(1500, "ns"), 1),
        (np.datetime64("NaT", "ns"), _MISSING),
        (pa.scalar(datetime(1970, 1, 2, tzinfo=UTC)), _DAY),
        (pa.scalar(date(1970, 1, 2)), _DAY),
        (pa.scalar("1970-01-02"), _DAY),
        (pa.scalar(None, pa.timestamp("us")), _MISSING),
        (2**62, _LARGE),
        (Decimal("1E+100000"), _LARGE),
        (float("nan"), _NO_TIME),
        (float("inf"), _NO_TIME),
        (True, _NO_TIME),
        (np.bool_(True), _NO_TIME),
        (np.timedelta64(1, "s"), _NO_TIME),
        (timedelta(seconds=1), _NO_TIME),
        (b"1970-01-02", _NO_TIME),
        ((0, 1), _NO_TIME),
        (_Anything(), _NO_TIME),
    )
)
