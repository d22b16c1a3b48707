"""Filters as functions of one message: the meaning of `filter`, computed with Python's own values.

For one message a call of NumPy takes longer than the computation, twenty to thirty microseconds for a comparison;
a function takes about one. A test checks that both, and Spark, have the same results.

A value is None if it is unknown; else str, int, float or bool as in `filter_eval`'s table of columns; a decimal
is the whole number of its last digits. Python's whole numbers are exact, so only values that are too large for a long
or a decimal have to be detected.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

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

#: From a message's properties and the values of an expression's parameters to the value of the expression.
Function = Callable[[Mapping[str, Any], Sequence[Any]], Any]

# A function of two known values.
_Pair = Callable[[Any, Any], Any]


def as_function(expression: Expression) -> Function:
    """An expression as a function of a message's properties (every one that it names) and of its parameters' values."""
    return fold(expression, _FUNCTIONS)


def _of_one(operand: Function, compute: Callable[[Any], Any]) -> Function:
    def result(message: Mapping[str, Any], parameters: Sequence[Any]) -> Any:
        value = operand(message, parameters)
        return None if value is None else compute(value)

    return result


def _of_two(left: Function, right: Function, compute: _Pair) -> Function:
    def result(message: Mapping[str, Any], parameters: Sequence[Any]) -> Any:
        a = left(message, parameters)
        if a is None:
            return None
        b = right(message, parameters)
        return None if b is None else compute(a, b)

    return result


def _joined(terms: Sequence[Function], *, decisive: bool) -> Function:
    """AND (`decisive` is False) or OR (True): one decisive term decides, else all have to be known."""

    def result(message: Mapping[str, Any], parameters: Sequence[Any]) -> bool | None:
        result: bool | None = not decisive
        for term in terms:
            value = term(message, parameters)
            if value is decisive:
                return decisive
            if value is None:
                result = None
        return result

    return result


def _conversion(before: Type, after: Type) -> Callable[[Any], Any]:
    if after.kind is ValueKind.DOUBLE:
        if before.kind is ValueKind.LONG:
            return float
        divisor = 10**before.scale
        # Python's division of whole numbers is rounded once, to the nearest double.
        return lambda value: value / divisor
    limit = 10**after.precision
    return lambda value: value if -limit < value < limit else None


def _arithmetic(operator: str, left: Type, right: Type, kind: Type) -> _Pair:
    if kind.kind is ValueKind.DECIMAL:
        return _whole(operator) if operator == "*" else _scaled(_whole(operator), left, right)
    if kind != LONG:
        return _double(operator)
    exact = _whole(operator)

    def long(a: int, b: int) -> int | None:
        value = exact(a, b)
        return value if value is not None and -(2**63) <= value < 2**63 else None

    return long


def _whole(operator: str) -> _Pair:
    match operator:
        case "+":
            return lambda a, b: a + b
        case "-":
            return lambda a, b: a - b
        case "*":
            return lambda a, b: a * b
        case "&":
            return lambda a, b: a & b
    return _remainder


def _remainder(a: int, b: int) -> int | None:
    """Return the remainder with the sign of the dividend; Python's own has the sign of the divisor."""
    if b == 0:
        return None
    rest = abs(a) % abs(b)
    return -rest if a < 0 else rest


def _double(operator: str) -> _Pair:
    match operator:
        case "/":
            return lambda a, b: a / b if b != 0 else None
        case "%":
            return _double_remainder
    return _whole(operator)


def _double_remainder(a: float, b: float) -> float | None:
    if b == 0:
        return None
    # Python raises where IEEE 754 has NaN.
    return math.nan if math.isinf(a) else math.fmod(a, b)


def _scaled(compute: _Pair, left: Type, right: Type) -> _Pair:
    """A function of two decimals' whole numbers, given the same number of places."""
    if left.scale == right.scale:
        return compute
    scale = max(left.scale, right.scale)
    of_left, of_right = 10 ** (scale - left.scale), 10 ** (scale - right.scale)
    return lambda a, b: compute(a * of_left, b * of_right)


def _comparison(operator: str, left: Type, right: Type) -> _Pair:
    if left.kind is ValueKind.DOUBLE:
        return _of_doubles(operator)
    match operator:
        case "=":
            compared: _Pair = lambda a, b: a == b  # noqa: E731 - one of three
        case "<":
            compared = lambda a, b: a < b  # noqa: E731
        case _:
            compared = lambda a, b: a <= b  # noqa: E731
    return _scaled(compared, left, right) if left.kind is ValueKind.DECIMAL else compared


def _of_doubles(operator: str) -> _Pair:
    """Compare doubles: NaN equals itself and is greater than all others."""
    match operator:
        case "=":
            return lambda a, b: a == b or (math.isnan(a) and math.isnan(b))
        case "<":
            return lambda a, b: a < b or (math.isnan(b) and not math.isnan(a))
    return lambda a, b: a <= b or math.isnan(b)


def _property(node: Property) -> Function:
    name = node.name
    return lambda message, _: message[name]


def _constant(node: Constant) -> Function:
    value = node.value
    return lambda _message, _: value


def _parameter(node: Parameter) -> Function:
    number = node.number
    return lambda _, parameters: parameters[number]


def _among(node: In, operand: Function) -> Function:
    wanted, otherwise = frozenset(node.values), None if node.null else False
    return _of_one(operand, lambda value: True if value in wanted else otherwise)


_FUNCTIONS: Meaning[Function] = {
    Property: _property,
    Constant: _constant,
    Parameter: _parameter,
    Convert: lambda node, a: _of_one(a, _conversion(node.operand.type, node.type)),
    Arithmetic: lambda node, a, b: _of_two(
        a, b, _arithmetic(node.operator, node.left.type, node.right.type, node.type)
    ),
    Compare: lambda node, a, b: _of_two(a, b, _comparison(node.operator, node.left.type, node.right.type)),
    In: _among,
    Like: lambda node, a: _of_one(a, like(node.segments)),
    IsNull: lambda _, inner: lambda message, parameters: inner(message, parameters) is None,
    Not: lambda _, a: _of_one(a, lambda value: not value),
    And: lambda _, *terms: _joined(terms, decisive=False),
    Or: lambda _, *terms: _joined(terms, decisive=True),
}
