"""Filters as Spark expressions, with the meaning that `kernel.filter` defines; and the properties of a frame.

Nothing of a filter reaches Spark as the text of a query: names become columns, constants become literals, and
operations that could fail under ANSI rules use the functions that return null instead. A timestamp is its microseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, assert_never

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.functions import arrow_udf

from seriatim.errors import InvariantBroken
from seriatim.kernel.filters.filter import (
    BOOLEAN,
    DOUBLE,
    LONG,
    MOST_DIGITS,
    STRING,
    TIMESTAMP,
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
    decimal,
)
from seriatim.kernel.filters.filter_fold import Meaning, fold, nodes
from seriatim.kernel.filters.like import LONG_SEGMENT, like, like_regex
from seriatim.pipeline.filters.syntax import parsed
from seriatim.spark.frames.columns import microseconds, quoted


@dataclass(frozen=True, slots=True)
class Properties:
    """The properties of a frame that filters may name: type and expression of each; `unfit`: columns that can't be properties."""

    types: Mapping[str, Type]
    columns: Mapping[str, Column]
    unfit: Mapping[str, str]

    @classmethod
    def of(cls, df: DataFrame) -> Properties:
        """The properties of a frame; a ticket's number is ``ticket`` and its epoch ``epoch``."""
        types: dict[str, Type] = {}
        columns: dict[str, Column] = {}
        unfit: dict[str, str] = {}
        for field in df.schema:
            kind, column = _property(field.dataType, quoted(field.name), field.name)
            if kind is None:
                unfit[field.name] = field.dataType.simpleString()
            else:
                types[field.name], columns[field.name] = kind, column
        ticket = next((field.dataType for field in df.schema if field.name == "ticket"), None)
        if isinstance(ticket, T.StructType) and {"epoch", "number"} <= set(ticket.fieldNames()):
            for name, part in (("ticket", "number"), ("epoch", "epoch")):
                types[name], columns[name] = LONG, quoted("ticket")[part].cast("long")
                unfit.pop(name, None)
        return cls(types, columns, unfit)

    def parsed(self, text: str, where: str) -> Expression:
        return parsed(text, self.types, where=where, unfit=self.unfit)


def _property(kind: T.DataType, column: Column, name: str) -> tuple[Type | None, Column]:  # noqa: PLR0911 - one return a type
    match kind:
        case T.StringType():
            # Text that isn't UTF-8 has no place in an order of code points, and Python couldn't read it.
            plain = column if kind.isUTF8BinaryCollation() else F.collate(column, "UTF8_BINARY")
            return STRING, F.try_validate_utf8(plain)
        case T.ByteType() | T.ShortType() | T.IntegerType() | T.LongType():
            return LONG, column.cast("long")
        case T.FloatType() | T.DoubleType():
            return DOUBLE, column.cast("double")
        case T.DecimalType():
            return decimal(kind.precision, kind.scale), column
        case T.BooleanType():
            return BOOLEAN, column
        case T.TimestampType() | T.TimestampNTZType() | T.DateType():
            return TIMESTAMP, microseconds(kind, column, name, "filter")
    return None, column


def spark_type(kind: Type) -> T.DataType:
    match kind.kind:
        case ValueKind.STRING:
            return T.StringType()
        case ValueKind.LONG | ValueKind.TIMESTAMP:
            return T.LongType()
        case ValueKind.DOUBLE:
            return T.DoubleType()
        case ValueKind.DECIMAL:
            return T.DecimalType(kind.precision, kind.scale)
        case ValueKind.BOOLEAN:
            return T.BooleanType()
        case ValueKind.NULL:
            raise InvariantBroken("a bare NULL has no type")
        case _:
            assert_never(kind.kind)


def literal(value: Any, kind: Type) -> Any:
    if kind.kind is ValueKind.DECIMAL and value is not None:
        sign, digits, _ = Decimal(value).as_tuple()
        return Decimal((sign, digits, -kind.scale))
    return value


def _no_value(_: int) -> Column:
    raise InvariantBroken("a shape has no value without its parameters")


def condition(
    expression: Expression, columns: Mapping[str, Column], parameter: Callable[[int], Column] = _no_value
) -> Column:
    return fold(
        expression,
        {**_COLUMNS, Property: lambda node: columns[node.name], Parameter: lambda node: parameter(node.number)},
    )


def _compared(node: Compare, first: Column, other: Column) -> Column:
    """Compare; decimals exactly, even if no decimal has room for the digits of both."""
    left, right, compare = node.left.type, node.right.type, _COMPARE[node.operator]
    if left.kind is not ValueKind.DECIMAL:
        return compare(first, other)
    scale, whole = max(left.scale, right.scale), max(left.whole, right.whole)
    if scale + whole <= MOST_DIGITS:
        common = T.DecimalType(scale + whole, scale)
        return compare(first.cast(common), other.cast(common))
    common = T.DecimalType(MOST_DIGITS, scale)
    wide, same = first.try_cast(common), other.try_cast(common)
    # A number that doesn't fit is farther from 0 than the other number, which does.
    zero, nothing = F.lit(0), F.lit(None).cast("boolean")
    beyond = F.when(first.isNotNull() & wide.isNull(), compare(F.signum(first), zero.cast("double")))
    beyond = beyond.when(other.isNotNull() & same.isNull(), compare(zero.cast("double"), F.signum(other)))
    return F.when(first.isNull() | other.isNull(), nothing).otherwise(beyond.otherwise(compare(wide, same)))


def _constant(value: Any, kind: Type) -> Column:
    if kind.kind is ValueKind.DECIMAL and value is not None:
        return F.lit(str(literal(value, kind))).cast(spark_type(kind))
    return F.lit(value).cast(spark_type(kind))


_COMPARE: Mapping[str, Callable[[Column, Column], Column]] = {
    "=": lambda left, other: left == other,
    "<": lambda left, other: left < other,
    "<=": lambda left, other: left <= other,
}

_CALCULATE: Mapping[str, Callable[[Column, Column], Column]] = {
    "+": F.try_add,
    "-": F.try_subtract,
    "*": F.try_multiply,
    "/": F.try_divide,
    "%": F.try_mod,
    "&": lambda left, other: left.bitwiseAND(other),
}


def _among(node: In, operand: Column) -> Column:
    values = [_constant(value, node.operand.type) for value in node.values]
    if not values:
        return F.lit(None).cast("boolean") if node.null else F.when(operand.isNotNull(), F.lit(False))
    # Spark looks up many values in a set, in which -0.0 is not 0.0.
    each = [operand == value for value in values] if node.operand.type == DOUBLE else [operand.isin(values)]
    conditions = _balanced(each, Column.__or__)
    return F.when(conditions, F.lit(True)) if node.null else conditions


def needs_python(expression: Expression) -> bool:
    """Whether a part of an expression needs Python, so that it can't be used in a function over an array."""
    return any(isinstance(node, Like) and _is_long(node.segments) for node in nodes(expression))


def _is_long(segments: tuple[tuple[str | None, ...], ...]) -> bool:
    """Whether a regular expression could take too long; patterns without ``_`` of two segments, or of one text, need none."""
    if all(None not in segment for segment in segments) and (len(segments) < 3 or _is_part(segments)):
        return False
    return any(len(segment) > LONG_SEGMENT for segment in segments[1:])


def _is_part(segments: tuple[tuple[str | None, ...], ...]) -> bool:
    return len(segments) == 3 and not segments[0] and not segments[2]


def _like(operand: Column, segments: tuple[tuple[str | None, ...], ...]) -> Column:  # noqa: PLR0911 - one return a form
    """Match plain patterns, nearly all of them, without a regular expression; match long patterns by the kernel."""
    if all(None not in segment for segment in segments):
        texts = ["".join(character or "" for character in segment) for segment in segments]
        match texts:
            case [whole]:
                return operand == F.lit(whole)
            case [start, ""]:
                return operand.startswith(F.lit(start))
            case ["", end]:
                return operand.endswith(F.lit(end))
            case [start, end]:
                both = operand.startswith(F.lit(start)) & operand.endswith(F.lit(end))
                return both & (F.char_length(operand) >= len(start) + len(end))
            case ["", part, ""]:
                return operand.contains(F.lit(part))
    if _is_long(segments):
        return arrow_udf(_by_kernel(segments), T.BooleanType())(operand)  # type: ignore[call-overload]  # its protocols need types of pyarrow
    return operand.rlike(rf"(?s)\A{like_regex(segments)}\z")


def _by_kernel(segments: tuple[tuple[str | None, ...], ...]) -> Callable[[pa.Array], pa.Array]:
    def matches(texts: pa.Array) -> pa.Array:
        matched = like(segments)
        return pa.array([None if text is None else matched(text) for text in texts.to_pylist()], pa.bool_())

    return matches


def _balanced(terms: Iterable[Column], join: Callable[[Column, Column], Column]) -> Column:
    """Join all terms as a balanced tree, because Spark recurses once for every level."""
    joined = list(terms)
    while len(joined) > 1:
        pairs = zip(joined[::2], joined[1::2], strict=False)
        joined = [join(left, other) for left, other in pairs] + ([joined[-1]] if len(joined) % 2 else [])
    return joined[0]


_COLUMNS: Meaning[Column] = {
    Constant: lambda node: _constant(node.value, node.type),
    Convert: lambda node, a: a.try_cast(spark_type(node.type)),
    Arithmetic: lambda node, a, b: _CALCULATE[node.operator](a, b),
    Compare: _compared,
    In: _among,
    Like: lambda node, a: _like(a, node.segments),
    IsNull: lambda _, a: a.isNull(),
    Not: lambda _, a: ~a,
    And: lambda _, *terms: _balanced(terms, Column.__and__),
    Or: lambda _, *terms: _balanced(terms, Column.__or__),
}
