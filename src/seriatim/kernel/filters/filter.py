"""Filters: boolean expressions over a message's properties, as typed values; this module defines their meaning.

A filter is TRUE, FALSE or unknown, and a message passes if it is TRUE. The trees here are what a filter *is*; its text
is parsed in ``pipeline``, `filter_eval` computes it over arrays, and Spark over columns, to the same last bit.

*Null.* A property that a message doesn't have is unknown. A value computed from an unknown value is unknown, with
these exceptions: ``FALSE AND unknown`` is FALSE, ``TRUE OR unknown`` is TRUE, and ``IS NULL`` is never unknown.
``x IN (…)`` is ``x = … OR x = …``.

*Long* is int64. An overflow is unknown. ``-x`` is ``0 - x``, also for decimals, so the negated lowest long is unknown
too.

*Decimal* is exact, at most 38 digits. ``+ - *`` have as many digits as the result can have. Where these would be more
than 38, the operands are limited to the digits that fit (for ``*`` the operand with more digits), and an operand that
doesn't fit is unknown; so nothing is ever rounded. A number with a point, ``0.1``, is a decimal, and so is a whole
number that is no long.

*Double* is IEEE 754. NaN equals itself and is greater than all other doubles; -0.0 equals 0.0.

*Mixed.* Long with decimal: compared and computed as decimals. With a double: the other operand becomes the nearest
double. ``/`` is always computed with doubles. ``%`` has the sign of the dividend. Both are unknown if the divisor is
zero. ``&`` is for longs. Nothing else is converted: text is never compared with a number.

*String* is Unicode without lone surrogates, compared as its bytes in UTF-8, which is the order of code points: case and
accents count, and nothing is normalised. In ``LIKE``, ``_`` is one code point and ``%`` any number of them.

*Timestamp* is int64 microseconds since 1970 in UTC. *Boolean*: FALSE is less than TRUE.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from seriatim.errors import FilterError

#: Decimal digits that a decimal has at most.
MOST_DIGITS = 38

_DECIMAL = re.compile(r"decimal\(\s*(\d{1,2})\s*,\s*(\d{1,2})\s*\)")


class ValueKind(StrEnum):
    """The kind of a value, apart from a decimal's digits."""

    STRING = "string"
    LONG = "long"
    DOUBLE = "double"
    DECIMAL = "decimal"
    BOOLEAN = "boolean"
    TIMESTAMP = "timestamp"
    NULL = "null"


@dataclass(frozen=True, slots=True)
class Type:
    """The type of a property or an expression; `precision` and `scale` are a decimal's digits, in total and after the point."""

    kind: ValueKind
    precision: int = 0
    scale: int = 0

    def __str__(self) -> str:
        return f"decimal({self.precision},{self.scale})" if self.kind is ValueKind.DECIMAL else self.kind.value

    @property
    def whole(self) -> int:
        """A decimal's digits before the point."""
        return self.precision - self.scale


STRING = Type(ValueKind.STRING)
LONG = Type(ValueKind.LONG)
DOUBLE = Type(ValueKind.DOUBLE)
BOOLEAN = Type(ValueKind.BOOLEAN)
TIMESTAMP = Type(ValueKind.TIMESTAMP)
#: The type of ``NULL`` where nothing gives it another one.
NULL = Type(ValueKind.NULL)

_BY_NAME = {str(kind): kind for kind in (STRING, LONG, DOUBLE, BOOLEAN, TIMESTAMP)}


def decimal(precision: int, scale: int) -> Type:
    """The type of decimals with these numbers of digits: in total, and after the point."""
    return Type(ValueKind.DECIMAL, precision, scale)


def type_from(written: str) -> Type:
    """The type with this name in a declaration, e.g. ``decimal(12,2)``. Raises `FilterError`: there is no such type."""
    if (kind := _BY_NAME.get(written)) is not None:
        return kind
    digits = _DECIMAL.fullmatch(written)
    if digits and 1 <= int(digits[1]) <= MOST_DIGITS and int(digits[2]) <= int(digits[1]):
        return decimal(int(digits[1]), int(digits[2]))
    raise FilterError(f"{written!r} is not a type of properties", remedy=f"one of {', '.join(_BY_NAME)}, decimal(p,s)")


@dataclass(frozen=True, slots=True)
class Property:
    name: str
    type: Type


@dataclass(frozen=True, slots=True)
class Constant:
    """A value: str, int, float, bool or None (unknown). A decimal is the whole number of its last digits (1.50 with scale 2 is 150), a
    timestamp its microseconds.
    """

    value: str | int | float | bool | None
    type: Type


@dataclass(frozen=True, slots=True)
class Parameter:
    """The place of a constant that was taken out, so that filters that differ in constants only have one shape."""

    number: int
    type: Type


@dataclass(frozen=True, slots=True)
class Convert:
    """A long as decimal or double, a decimal as double, or a decimal limited to fewer digits before the point. A value that doesn't fit is
    unknown. A decimal keeps its scale; a long gets the scale 0.
    """

    operand: Expression
    type: Type


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """``left operator right``: two longs, two doubles, or two decimals, whose result has the digits of `type`."""

    operator: Literal["+", "-", "*", "/", "%", "&"]
    left: Expression
    right: Expression
    type: Type


@dataclass(frozen=True, slots=True)
class Compare:
    """``left operator right``, both of one kind; decimals may differ in digits."""

    operator: Literal["=", "<", "<="]
    left: Expression
    right: Expression
    type: Type = field(default=BOOLEAN, init=False)


@dataclass(frozen=True, slots=True)
class In:
    """Whether `operand` equals one of `values`, which are `Constant` values of its own type; `null`: NULL is among them."""

    operand: Expression
    values: tuple[str | int | float | bool, ...]
    null: bool = False
    type: Type = field(default=BOOLEAN, init=False)


@dataclass(frozen=True, slots=True)
class Like:
    """Whether `operand` consists of the segments with anything between them; in a segment None is any one code point."""

    operand: Expression
    segments: tuple[tuple[str | None, ...], ...]
    type: Type = field(default=BOOLEAN, init=False)


@dataclass(frozen=True, slots=True)
class IsNull:
    operand: Expression
    type: Type = field(default=BOOLEAN, init=False)


@dataclass(frozen=True, slots=True)
class Not:
    """TRUE for FALSE, FALSE for TRUE."""

    term: Expression
    type: Type = field(default=BOOLEAN, init=False)


@dataclass(frozen=True, slots=True)
class And:
    """TRUE if all terms are, FALSE if one is."""

    terms: tuple[Expression, ...]
    type: Type = field(default=BOOLEAN, init=False)


@dataclass(frozen=True, slots=True)
class Or:
    """TRUE if one term is, FALSE if all are."""

    terms: tuple[Expression, ...]
    type: Type = field(default=BOOLEAN, init=False)


Expression = Property | Constant | Parameter | Convert | Arithmetic | Compare | In | Like | IsNull | Not | And | Or
