"""Filters over arrays: the meaning of `filter`, computed for all messages at once.

A column is an array of values and an array that says which of them are known; values in unknown places are
never read. Arrays of length 1 stand for any number of messages, as NumPy broadcasts them.

==========  =====================================================================================
string      objects, Python's ``str``
long        int64
double      float64
decimal     the whole number of the last digits: int64 up to 18 digits, else objects, Python's ``int``
boolean     bool
timestamp   int64, microseconds since 1970 in UTC
==========  =====================================================================================
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seriatim.errors import InvariantBroken
from seriatim.kernel.filters.filter import (
    LONG,
    And,
    Arithmetic,
    Compare,
    Constant,
    Convert,
    Expression,
    In,
    IsNull,
    Like,
    Not,
    Or,
    Parameter,
    Property,
    Type,
    ValueKind,
)
from seriatim.kernel.filters.filter_fold import Meaning, fold
from seriatim.kernel.filters.like import like
from seriatim.kernel.values.columns import Bools

_LOWEST = np.iinfo(np.int64).min
# Decimals of up to this many digits are whole numbers in int64, and so is every power of ten that scales them.
_SHORT = 18
# Up to this many digits a decimal's whole number, and the power of ten that divides it, are doubles without rounding.
_EXACT = 15
# How many results are remembered because several filters need them; each takes two bytes a message.
_MOST_COMMON = 256


@dataclass(frozen=True, slots=True)
class Values:
    """A column: `values`, and which of them are `known`; two arrays of one length, or of length 1."""

    values: NDArray[Any]
    known: Bools


def column(values: Sequence[Any], kind: Type) -> Values:
    """A column from Python's values: None is unknown, a decimal is its whole number, a timestamp its microseconds."""
    blank = _blank(kind)
    known = np.array([value is not None for value in values], np.bool_)
    return Values(np.array([blank if value is None else value for value in values], _stored(kind)), known)


def evaluate(
    expression: Expression, columns: Mapping[str, Values], n: int | tuple[int, int], parameters: Sequence[Values] = ()
) -> tuple[Bools, Bools]:
    """A filter for `n` messages. `expression`: the filter, a condition. `columns`: each property that the filter names, in the form of this
    module's docstring. `n`: the number of messages; or the rows and columns of a table, of which columns and parameters are a part each.
    `parameters`: the value of each parameter of a shape, for every message. Returns the messages for which it is TRUE, and the messages for
    which it is known (TRUE or FALSE).
    """
    with np.errstate(all="ignore"):
        result = fold(expression, _meaning(columns, parameters))
    known = np.broadcast_to(result.known, n)
    return np.broadcast_to(result.values, n) & known, known.copy()


class Filters:
    """Many filters over the same messages: common parts are computed once. `expressions`: the filters."""

    def __init__(self, expressions: Sequence[Expression]) -> None:
        self._expressions = expressions
        terms = Counter(
            term
            for expression in expressions
            for term in (expression.terms if isinstance(expression, And) else (expression,))
        )
        self._common = [term for term, count in terms.most_common(_MOST_COMMON) if count > 1]

    def true(self, columns: Mapping[str, Values], n: int) -> Iterator[Bools]:
        """For each filter, those of the `n` messages for which it is TRUE; `columns` as for `evaluate`."""
        meaning, shared = _meaning(columns), dict[Expression, Values | None].fromkeys(self._common)
        with np.errstate(all="ignore"):
            for expression in self._expressions:
                result = fold(expression, meaning, shared)
                yield np.broadcast_to(result.values & result.known, n)


def _meaning(columns: Mapping[str, Values], parameters: Sequence[Values] = ()) -> Meaning[Values]:
    """Return the meaning of each kind of node over these columns, and values of parameters."""

    def parameter(node: Parameter) -> Values:
        if node.number >= len(parameters):
            raise InvariantBroken("a shape has no value without its parameters")
        return _filled(parameters[node.number], node.type)

    return {**_COMPUTED, Property: lambda node: _filled(columns[node.name], node.type), Parameter: parameter}


def _calculated(node: Arithmetic, a: Values, b: Values) -> Values:
    if node.type.kind is ValueKind.DECIMAL:
        return _decimals(node.operator, a, b, node.left.type, node.right.type, node.type)
    return (_longs if node.type == LONG else _doubles)(node.operator, a, b)


_COMPUTED: Meaning[Values] = {
    Constant: lambda node: column([node.value], node.type),
    Convert: lambda node, a: _converted(a, node.operand.type, node.type),
    Arithmetic: _calculated,
    Compare: lambda node, a, b: _compared(node.operator, a, b, node.left.type, node.right.type),
    In: lambda node, a: _among(a, node.operand.type, node.values, null=node.null),
    Like: lambda node, a: Values(_each(like(node.segments), a.values, np.bool_), a.known),
    IsNull: lambda _, a: Values(~a.known, np.ones_like(a.known)),
    Not: lambda _, a: Values(~a.values, a.known),
    And: lambda _, *terms: _joined(terms, decisive=False),
    Or: lambda _, *terms: _joined(terms, decisive=True),
}


def _stored(kind: Type) -> type[Any]:
    match kind.kind:
        case ValueKind.LONG | ValueKind.TIMESTAMP:
            return np.int64
        case ValueKind.DOUBLE:
            return np.float64
        case ValueKind.BOOLEAN:
            return np.bool_
        case ValueKind.DECIMAL if kind.precision <= _SHORT:
            return np.int64
    return np.object_


def _blank(kind: Type) -> Any:
    return "" if kind.kind is ValueKind.STRING else 0


def _filled(operand: Values, kind: Type) -> Values:
    """A column with a usable value in unknown places."""
    stored = _stored(kind)
    values = operand.values
    if values.dtype == np.object_ and not operand.known.all():
        values = np.where(operand.known, values, _blank(kind))
    return Values(values.astype(stored, copy=False), operand.known)


def _converted(operand: Values, before: Type, after: Type) -> Values:
    if after.kind is ValueKind.DOUBLE:
        return Values(_nearest(operand.values, before), operand.known)
    values, known = operand.values, operand.known
    if before.kind is ValueKind.DECIMAL or after.precision <= _SHORT:
        limit = 10**after.precision
        known = known & (values < limit) & (values > -limit)
    return Values(np.where(known, values, 0).astype(_stored(after)), known)


def _nearest(values: NDArray[Any], kind: Type) -> NDArray[Any]:
    if kind.kind is ValueKind.LONG:
        return values.astype(np.float64)
    divisor = 10**kind.scale
    if kind.precision <= _EXACT:
        return values.astype(np.float64) / divisor
    # Python's division of whole numbers is rounded once, to the nearest double.
    return _each(lambda value: value / divisor, values, np.float64)


def _each(compute: Callable[[Any], Any], values: NDArray[Any], stored: type[Any]) -> NDArray[Any]:
    """Apply a function to each of the values, as Python objects."""
    return np.fromiter(map(compute, values.ravel().tolist()), stored, values.size).reshape(values.shape)


def _longs(operator: str, left_values: Values, other: Values) -> Values:
    a, b, known = left_values.values, other.values, left_values.known & other.known
    match operator:
        case "+":
            result = a + b
            return Values(result, known & (((a ^ result) & (b ^ result)) >= 0))
        case "-":
            result = a - b
            return Values(result, known & (((a ^ b) & (a ^ result)) >= 0))
        case "*":
            result = a * b
            divisor = np.where((a == 0) | (a == -1), 1, a)
            fits = np.where(a == -1, b != _LOWEST, (a == 0) | (result // divisor == b))
            return Values(result, known & fits)
        case "&":
            return Values(a & b, known)
    # The remainder by -1 is 0, and NumPy's would overflow for the lowest long.
    return Values(np.fmod(a, np.where((b == 0) | (b == -1), 1, b)), known & (b != 0))


def _doubles(operator: str, left_values: Values, other: Values) -> Values:
    a, b, known = left_values.values, other.values, left_values.known & other.known
    match operator:
        case "+":
            return Values(a + b, known)
        case "-":
            return Values(a - b, known)
        case "*":
            return Values(a * b, known)
        case "/":
            return Values(a / b, known & (b != 0))
    return Values(np.fmod(a, b), known & (b != 0))


def _decimals(operator: str, left_values: Values, other: Values, left: Type, right: Type, kind: Type) -> Values:
    known = left_values.known & other.known
    if operator == "*":
        stored = _stored(kind)
        return Values(left_values.values.astype(stored) * other.values.astype(stored), known)
    a, b = _scaled(left_values.values, other.values, left, right)
    match operator:
        case "+":
            return Values((a + b).astype(_stored(kind)), known)
        case "-":
            return Values((a - b).astype(_stored(kind)), known)
    # Python's remainder of whole numbers has the sign of the divisor.
    rest = abs(a) % np.where(b == 0, 1, abs(b))
    return Values(np.where(a < 0, -rest, rest).astype(_stored(kind)), known & (b != 0))


def _scaled(a: NDArray[Any], b: NDArray[Any], left: Type, right: Type) -> tuple[NDArray[Any], NDArray[Any]]:
    """The whole numbers of two decimals with the same number of places."""
    scale = max(left.scale, right.scale)
    digits = max(left.whole, right.whole) + scale
    stored = np.int64 if digits < _SHORT else np.object_
    return a.astype(stored) * 10 ** (scale - left.scale), b.astype(stored) * 10 ** (scale - right.scale)


def _compared(operator: str, left_values: Values, other: Values, left: Type, right: Type) -> Values:
    a, b, known = left_values.values, other.values, left_values.known & other.known
    if left.kind is ValueKind.DECIMAL:
        a, b = _scaled(a, b, left, right)
    equal, less = a == b, a < b
    if left.kind is ValueKind.DOUBLE:
        equal |= np.isnan(a) & np.isnan(b)
        less |= ~np.isnan(a) & np.isnan(b)
    match operator:
        case "=":
            result = equal
        case "<":
            result = less
        case _:
            result = less | equal
    return Values(np.asarray(result, np.bool_), known)


def _among(operand: Values, kind: Type, values: Sequence[Any], *, null: bool) -> Values:
    if operand.values.dtype == np.object_:
        is_among = _each(frozenset(values).__contains__, operand.values, np.bool_)
    else:
        is_among = np.isin(operand.values, np.array(values, _stored(kind)))
    return Values(is_among, operand.known & is_among if null else operand.known)


def _joined(terms: Sequence[Values], *, decisive: bool) -> Values:
    """AND (`decisive` is False) or OR (True): one decisive term decides, else all have to be known."""
    decided, known = np.zeros(1, np.bool_), np.ones(1, np.bool_)
    for term in terms:
        decided = decided | (term.known & (term.values == decisive))
        known = known & term.known
    return Values(decided if decisive else ~decided, decided | known)
