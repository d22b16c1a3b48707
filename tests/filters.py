"""Strategies for filters, properties and messages, with the values at which something could go wrong."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from seriatim.errors import FilterError
from seriatim.kernel.filters.filter import Expression, Type, ValueKind, decimal, type_from
from seriatim.pipeline.filters.syntax import parsed

LOWEST, HIGHEST = -(2**63), 2**63 - 1

_PLAIN = ("string", "long", "double", "boolean", "timestamp")
_LONGS = st.sampled_from([0, 1, -1, 2, 3, 7, -7, 10, 2**31, 2**53, 2**53 + 1, 3037000500, LOWEST, LOWEST + 1, HIGHEST])
_TEXTS = st.sampled_from(["", "a", "A", "ab", "aab", "abab", "é", "é", "ﬀ", "😀", "😀a", "a\nb", "a%b", "a_b", "\\", "'", "\0", "\uffff", "İ", "ß", " a"])  # fmt: skip
_DOUBLES = st.sampled_from([0.0, -0.0, 0.1, -0.1, 1.0, 1.5, 3.0, 2.0**53, 1e16, 1e308, -1e308, 5e-324, float("nan"), float("inf"), float("-inf")])  # fmt: skip
_MOMENTS = st.sampled_from([0, 1, -1, 1_700_000_000_000_000, -62_135_596_800_000_000, 253_402_300_799_999_999])


@st.composite
def schemas(draw: st.DrawFn) -> dict[str, Type]:
    """Two properties of every plain type, and decimals of any digits."""
    types = {f"{name}_{n}": type_from(name) for name in _PLAIN for n in (1, 2)}
    for n in range(1, 4):
        precision = draw(st.sampled_from([1, 2, 5, 9, 12, 15, 16, 17, 18, 19, 20, 30, 37, 38]))
        types[f"decimal_{n}"] = decimal(precision, draw(st.integers(0, precision)))
    return types


def values(kind: Type) -> st.SearchStrategy[Any]:
    """Values of a type, as `column` takes them; None among them."""
    return st.none() | known_values(kind)


def known_values(kind: Type) -> st.SearchStrategy[Any]:
    """Values of a type, as `column` takes them."""
    match kind.kind:
        case ValueKind.STRING:
            text = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
            return _TEXTS | text
        case ValueKind.LONG:
            return _LONGS | st.integers(-20, 20) | st.integers(LOWEST, HIGHEST)
        case ValueKind.DOUBLE:
            return _DOUBLES | st.floats()
        case ValueKind.BOOLEAN:
            return st.booleans()
        case ValueKind.TIMESTAMP:
            return _MOMENTS | st.integers(0, 2_000_000_000_000_000)
    most = 10**kind.precision - 1
    some = [0, 1, -1, 10**kind.scale, 15 * 10 ** max(kind.scale - 1, 0), most, -most, most // 2]
    return st.sampled_from([value for value in some if abs(value) <= most]) | st.integers(-most, most)


def written(value: Any, kind: Type) -> str:
    """A constant as text."""
    match kind.kind:
        case _ if value is None:
            return "NULL"
        case ValueKind.STRING:
            return "'" + value.replace("'", "''") + "'"
        case ValueKind.DOUBLE:
            text = repr(value)
            return text if "e" in text else f"{text}e0"
        case ValueKind.DECIMAL:
            sign, digits, _ = Decimal(value).as_tuple()
            text = f"{Decimal((sign, digits, -kind.scale)):f}"
            return text if "." in text else f"{text}."
        case ValueKind.TIMESTAMP:
            day, rest = divmod(value, 86_400_000_000)
            return f"TIMESTAMP '{_day(day)} {rest // 3_600_000_000:02}:{rest // 60_000_000 % 60:02}:{rest // 1_000_000 % 60:02}.{rest % 1_000_000:06}Z'"  # fmt: skip
    return str(value).upper()


def _day(number: int) -> str:
    return date.fromordinal(719_163 + number).isoformat()


def constants(kind: Type) -> st.SearchStrategy[str]:
    """Constants of a type as text; doubles that have no constant are left out."""
    if kind.kind is ValueKind.DOUBLE:
        finite = known_values(kind).filter(lambda value: value == value and abs(value) != float("inf"))  # noqa: PLR0124
        return finite.map(lambda value: written(value, kind))
    return known_values(kind).map(lambda value: written(value, kind))


@st.composite
def filters(draw: st.DrawFn, types: dict[str, Type], depth: int = 3) -> str:  # noqa: C901, PLR0911 - a case a kind
    """Text of a filter; types are right, but decimals may have too many digits."""
    choices = ["compare", "compare", "compare", "in", "between", "like", "null", "mask", "flag"]
    if depth:
        choices += ["and", "or", "not", "and", "or"]
    again = lambda: draw(filters(types, depth - 1))  # noqa: E731 - short, and used nine times
    numbers = [
        name for name, kind in types.items() if kind.kind in (ValueKind.LONG, ValueKind.DOUBLE, ValueKind.DECIMAL)
    ]
    match draw(st.sampled_from(choices)):
        case "and":
            return f"({again()} AND {again()})"
        case "or":
            return f"({again()} OR {again()})"
        case "not":
            return f"NOT ({again()})"
        case "flag":
            return draw(st.sampled_from(["TRUE", "FALSE", "NULL", "boolean_1", "boolean_2", "(boolean_1 < boolean_2)"]))
        case "null":
            name = draw(st.sampled_from(sorted(types)))
            return draw(st.sampled_from([f"{name} IS NULL", f"{name} IS NOT NULL", f"({again()}) IS NULL" if depth else "NULL IS NULL"]))  # fmt: skip
        case "mask":
            mask = draw(constants(type_from("long")))
            return f"long_1 & {mask} {draw(st.sampled_from(['<>', '=', '<']))} {draw(st.sampled_from(['0', 'long_2']))}"
        case "like":
            pattern = "".join(draw(st.lists(st.sampled_from(["%", "_", "a", "b", "é", "😀", "!%", "!_", "!!", "'", "\n", "\\", "."]), max_size=6)))  # fmt: skip
            quoted = pattern.replace("'", "''")
            return f"string_{draw(st.integers(1, 2))} {draw(st.sampled_from(['', 'NOT ']))}LIKE '{quoted}' ESCAPE '!'"
        case "in":
            name = draw(st.sampled_from(sorted(types)))
            some = draw(st.lists(_listed(types[name]), min_size=1, max_size=14))
            return f"{name} {draw(st.sampled_from(['', 'NOT ']))}IN ({', '.join(some)})"
        case "between":
            name = draw(st.sampled_from(numbers))
            negated = draw(st.sampled_from(["", "NOT "]))
            return f"{name} {negated}BETWEEN {draw(_number(types, 1))} AND {draw(_number(types, 1))}"
        case _:
            operator = draw(st.sampled_from(["=", "<>", "!=", "<", "<=", ">", ">="]))
            if draw(st.booleans()):
                return f"{draw(_number(types, 2))} {operator} {draw(_number(types, 2))}"
            kind = draw(st.sampled_from(["string", "timestamp", "boolean"]))
            one, other = f"{kind}_1", draw(st.just(f"{kind}_2") | constants(type_from(kind)) | st.just("NULL"))
            return f"{one} {operator} {other}"


def _listed(kind: Type) -> st.SearchStrategy[str]:
    own = st.just("NULL") | constants(kind) | constants(kind)
    if kind.kind in (ValueKind.LONG, ValueKind.DOUBLE, ValueKind.DECIMAL):
        return own | constants(type_from("long")) | constants(decimal(3, 1)) | constants(type_from("double"))
    return own


@st.composite
def _number(draw: st.DrawFn, types: dict[str, Type], depth: int) -> str:
    numbers = [
        name for name, kind in types.items() if kind.kind in (ValueKind.LONG, ValueKind.DOUBLE, ValueKind.DECIMAL)
    ]
    choices = ["property", "property", "constant", "constant"] + (["calculate"] * 4 + ["negate"] if depth else [])
    match draw(st.sampled_from(choices)):
        case "property":
            return draw(st.sampled_from(numbers))
        case "constant":
            kind = draw(st.sampled_from([type_from("long"), type_from("double"), decimal(2, 1), decimal(12, 2), decimal(38, 10)]))  # fmt: skip
            return draw(constants(kind))
        case "negate":
            return f"-({draw(_number(types, depth - 1))})"
        case _:
            one, other = draw(_number(types, depth - 1)), draw(_number(types, depth - 1))
            return f"({one} {draw(st.sampled_from(['+', '-', '*', '/', '%']))} {other})"


def read(texts: list[str], types: dict[str, Type]) -> list[tuple[str, Expression]]:
    """The texts that are filters, with what they stand for; the others have more digits than a decimal has."""
    found = []
    for text in texts:
        try:
            found.append((text, parsed(text, types)))
        except FilterError as error:
            if "digits" not in error.what:
                raise
    return found


@st.composite
def messages(draw: st.DrawFn, types: dict[str, Type], most: int = 24) -> dict[str, list[Any]]:
    """Columns of values, as `column` takes them."""
    n = draw(st.integers(1, most))
    return {name: draw(st.lists(values(kind), min_size=n, max_size=n)) for name, kind in types.items()}
