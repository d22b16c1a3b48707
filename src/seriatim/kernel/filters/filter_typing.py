"""Build filters by the rules of types that `filter` describes. Each function raises `FilterError` without a place: only a text has one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from seriatim.errors import FilterError
from seriatim.kernel.filters.filter import (
    BOOLEAN,
    DOUBLE,
    LONG,
    MOST_DIGITS,
    STRING,
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
    Property,
    Type,
    ValueKind,
    decimal,
)

_NUMBERS = (ValueKind.LONG, ValueKind.DECIMAL, ValueKind.DOUBLE)
_LONG_DIGITS = 19
# A product is refused if fewer digits than this could be kept before the point.
_LEAST_WHOLE = 12


def number(text: str) -> Constant:
    """The constant for digits: a long, a decimal if it has a point or is no long, a double with an exponent. Raises `FilterError`: there
    are more digits than a decimal can have, or the number is too large for a double.
    """
    if "e" in text.lower():
        value = float(text)
        if value == float("inf"):
            raise FilterError(f"{text[:60]} is out of the range of a double")
        return Constant(value, DOUBLE)
    whole, _, places = text.partition(".")
    whole = whole.lstrip("0")
    digits = len(whole) + len(places)
    if digits > MOST_DIGITS:
        raise FilterError(f"{text[:60]} has more than {MOST_DIGITS} digits", remedy="write a double: 1e40")
    unscaled = int(f"0{whole}{places}")
    if "." not in text and _is_long(unscaled):
        return Constant(unscaled, LONG)
    return Constant(unscaled, decimal(max(digits, 1), len(places)))


def condition(term: Expression) -> Expression:
    """Check that `term` is a condition, and return it. Raises `FilterError`: it isn't TRUE, FALSE or unknown."""
    if term.type.kind is ValueKind.NULL:
        return Constant(None, BOOLEAN)
    if term.type != BOOLEAN:
        raise FilterError(f"{_described(term)} is not a condition", remedy="compare it with a value")
    return term


def all_of(terms: Iterable[Expression]) -> Expression:
    flat: list[Expression] = []
    for term in map(condition, terms):
        flat.extend(term.terms if isinstance(term, And) else (term,))
    return flat[0] if len(flat) == 1 else And(tuple(flat))


def any_of(terms: Iterable[Expression]) -> Expression:
    flat: list[Expression] = []
    for term in map(condition, terms):
        flat.extend(term.terms if isinstance(term, Or) else (term,))
    return flat[0] if len(flat) == 1 else Or(tuple(flat))


def compared(operator: Literal["=", "<>", "<", "<=", ">", ">="], left: Expression, right: Expression) -> Expression:
    """``left operator right``. Equality with a constant is an `In` with one value, so that there is only one form. Raises `FilterError`:
    the operands are not comparable.
    """
    if operator == "<>":
        return Not(compared("=", left, right))
    left, right = _comparable(left, right)
    if operator == "=" and isinstance(right, Constant):
        return listed(left, [right])
    if operator == "=" and isinstance(left, Constant):
        return listed(right, [left])
    left, right = _alike(left, right)
    match operator:
        case ">":
            return Compare("<", right, left)
        case ">=":
            return Compare("<=", right, left)
    return Compare(operator, left, right)


def listed(operand: Expression, values: Sequence[Constant]) -> Expression:
    """``operand IN (values)``: each value is converted to the operand's type; values that can never be equal are left out. Raises
    `FilterError`: a value is not comparable with the operand.
    """
    null = False
    own: dict[str | int | float | bool, None] = {}
    doubles: dict[str | int | float | bool, None] = {}
    for value in values:
        known, constant = _comparable(operand, value)
        if not isinstance(constant, Constant) or constant.value is None or known.type.kind is ValueKind.NULL:
            null = True
        elif DOUBLE in (constant.type, operand.type):
            doubles[_double_of(constant)] = None
        elif (same := _same(constant, operand.type)) is not None:
            own[same] = None
    if operand.type.kind is ValueKind.NULL:
        return Constant(None, BOOLEAN)
    if operand.type == DOUBLE:
        return In(operand, tuple(doubles), null)
    listed_in = In(operand, tuple(own), null)
    return any_of([listed_in, In(_as_double(operand), tuple(doubles))]) if doubles else listed_in


def is_null(operand: Expression) -> Expression:
    return Constant(True, BOOLEAN) if operand.type.kind is ValueKind.NULL else IsNull(operand)


def like(operand: Expression, pattern: str, escape: str = "\\") -> Expression:
    r"""``operand LIKE pattern``; `escape` before ``%``, ``_`` or itself makes that character literal.

    Raises:
        FilterError: the operand is no string, or the escape character stands before something else.
    """
    if operand.type.kind is ValueKind.NULL:
        return Constant(None, BOOLEAN)
    if operand.type != STRING:
        raise FilterError(f"LIKE works on strings, not on {_described(operand)}")
    segments: list[list[str | None]] = [[]]
    rest = iter(pattern)
    for character in rest:
        if character == escape:
            literal = next(rest, "")
            if literal not in ("%", "_", escape):
                remedy = f"write {escape}{escape} for the character itself, or choose another with ESCAPE '!'"
                raise FilterError(
                    f"the escape character {escape!r} in the pattern must stand before %, _ or itself", remedy=remedy
                )
            segments[-1].append(literal)
        elif character == "%":
            segments.append([])
        else:
            segments[-1].append(None if character == "_" else character)
    return Like(operand, tuple(map(tuple, segments)))


def negated(operand: Expression) -> Expression:
    """``-operand``. Raises `FilterError`: the operand is no number."""
    if operand.type.kind is ValueKind.NULL:
        return operand
    if operand.type.kind not in _NUMBERS:
        raise FilterError(f"{_described(operand)} has no negative")
    if isinstance(operand, Constant) and isinstance(operand.value, int | float) and operand.value != -(2**63):
        value = -operand.value
        # -9223372036854775808 is a long although 9223372036854775808 is none.
        lowest = value == -(2**63) and operand.type.scale == 0 and operand.type != DOUBLE
        return Constant(value, LONG if lowest else operand.type)
    if operand.type == DOUBLE:
        return Arithmetic("*", Constant(-1.0, DOUBLE), operand, DOUBLE)  # of 0.0 it is -0.0, as 0.0 - x would not be
    return calculated("-", Constant(0, LONG), operand)


def calculated(operator: Literal["+", "-", "*", "/", "%", "&"], left: Expression, right: Expression) -> Expression:
    """``left operator right``. Raises `FilterError`: an operand is no number, ``&`` is not between longs, or the result has too many
    digits.
    """
    if left.type.kind is ValueKind.NULL and right.type.kind is ValueKind.NULL:
        return left
    left, right = _typed(left, right.type), _typed(right, left.type)
    for operand in (left, right):
        if operand.type.kind not in _NUMBERS or (operator == "&" and operand.type != LONG):
            wanted = "longs" if operator == "&" else "numbers"
            raise FilterError(f"{operator} is for {wanted}, not {_described(operand)}")
    if operator == "/":
        return Arithmetic(operator, _as_double(left), _as_double(right), DOUBLE)
    left, right = _alike(left, right)
    if left.type.kind is not ValueKind.DECIMAL:
        return Arithmetic(operator, left, right, left.type)
    match operator:
        case "*":
            return _product(left, right)
        case "%":
            return _remainder(left, right)
        case _:
            return _sum(operator, left, right)


def _sum(operator: Literal["+", "-", "&"], left: Expression, right: Expression) -> Expression:
    scale = max(left.type.scale, right.type.scale)
    whole = min(max(left.type.whole, right.type.whole), MOST_DIGITS - 1 - scale)
    if whole < 1:
        raise _too_many(operator, left, right)
    left, right = (_held(side, min(side.type.whole, whole)) for side in (left, right))
    return Arithmetic(operator, left, right, decimal(whole + scale + 1, scale))


def _product(left: Expression, right: Expression) -> Expression:
    swapped = left.type.precision < right.type.precision
    large, small = (right, left) if swapped else (left, right)
    most = MOST_DIGITS - 1 - small.type.precision
    if most < large.type.precision:
        whole = most - large.type.scale
        if whole < min(large.type.whole, _LEAST_WHOLE):
            raise _too_many("*", left, right)
        large = _held(large, whole)
    left, right = (small, large) if swapped else (large, small)
    digits = left.type.precision + right.type.precision + 1
    return Arithmetic("*", left, right, decimal(digits, left.type.scale + right.type.scale))


def _remainder(left: Expression, right: Expression) -> Expression:
    # The whole quotient must have at most 38 digits.
    whole = min(left.type.whole, MOST_DIGITS - right.type.scale)
    if whole + left.type.scale < 1:
        raise _too_many("%", left, right)
    left = _held(left, whole)
    scale = max(left.type.scale, right.type.scale)
    digits = min(left.type.whole, right.type.whole) + scale
    if digits < 1:
        raise _too_many("%", left, right)
    return Arithmetic("%", left, right, decimal(digits, scale))


def _too_many(operator: str, left: Expression, right: Expression) -> FilterError:
    problem = f"{left.type} {operator} {right.type} has more digits than the {MOST_DIGITS} of a decimal"
    return FilterError(problem, remedy="declare the properties with fewer digits, or as double")


def _held(operand: Expression, whole: int) -> Expression:
    """Return a decimal with at most the given number of digits before the point."""
    if operand.type.whole <= whole:
        return operand
    return Convert(operand, decimal(max(whole + operand.type.scale, 1), operand.type.scale))


def _comparable(left: Expression, right: Expression) -> tuple[Expression, Expression]:
    """Both operands, with a type for a bare NULL; not converted yet."""
    if left.type.kind is ValueKind.NULL and right.type.kind is ValueKind.NULL:
        return Constant(None, LONG), Constant(None, LONG)
    left, right = _typed(left, right.type), _typed(right, left.type)
    one, other = left.type.kind, right.type.kind
    if one is not other and not (one in _NUMBERS and other in _NUMBERS):
        raise FilterError(f"{_described(left)} can't be compared with {_described(right)}", remedy=_advice(left, right))
    return left, right


def _alike(left: Expression, right: Expression) -> tuple[Expression, Expression]:
    """Convert two comparable expressions to the same kind."""
    if left.type.kind is right.type.kind:
        return left, right
    if DOUBLE in (left.type, right.type):
        return _as_double(left), _as_double(right)
    return _as_decimal(left), _as_decimal(right)


def _typed(operand: Expression, kind: Type) -> Expression:
    return Constant(None, kind) if operand.type.kind is ValueKind.NULL else operand


def _as_double(operand: Expression) -> Expression:
    if operand.type == DOUBLE:
        return operand
    if isinstance(operand, Constant):
        return Constant(None if operand.value is None else _double_of(operand), DOUBLE)
    return Convert(operand, DOUBLE)


def _double_of(constant: Constant) -> float:
    # Division of whole numbers rounds to the nearest double, however large they are.
    value = constant.value
    return value / 10**constant.type.scale if isinstance(value, int) else float(value or 0.0)


def _as_decimal(operand: Expression) -> Expression:
    if operand.type.kind is ValueKind.DECIMAL:
        return operand
    if isinstance(operand, Constant):
        return Constant(operand.value, decimal(len(str(abs(int(operand.value or 0)))), 0))
    return Convert(operand, decimal(_LONG_DIGITS, 0))


def _same(constant: Constant, kind: Type) -> str | int | bool | None:
    """Return the constant as a value of that type; None if there is no such value."""
    value = constant.value
    if isinstance(value, float) or kind.kind not in (ValueKind.LONG, ValueKind.DECIMAL) or not isinstance(value, int):
        return None if isinstance(value, float) else value
    more = kind.scale - constant.type.scale
    scaled, left_over = (value * 10**more, 0) if more >= 0 else divmod(value, 10**-more)
    fits = _is_long(scaled) if kind == LONG else abs(scaled) < 10**kind.precision
    return scaled if fits and not left_over else None


def _is_long(value: int) -> bool:
    return -(2**63) <= value < 2**63


def _described(operand: Expression) -> str:
    match operand:
        case Property(name, kind):
            return f"{name!r} ({kind})"
        case Constant(value, kind) if kind == STRING:
            return f"the string {str(value)[:40]!r}"
    return f"a {operand.type}"


def _advice(left: Expression, right: Expression) -> str:
    kinds = {left.type.kind, right.type.kind}
    text = next((side for side in (left, right) if side.type == STRING), None)
    if ValueKind.TIMESTAMP in kinds:
        return "write TIMESTAMP '2026-01-31 12:00:00'"
    if isinstance(text, Constant):
        return "write it without quotes" if kinds & {*_NUMBERS, ValueKind.BOOLEAN} else ""
    return "put text in single quotes" if text is not None else ""
