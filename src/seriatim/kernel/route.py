"""Find the filters that a message passes without trying them all; this module splits filters for that.

A filter such as ``type = 'order' AND amount >= 100`` is TRUE only for messages of one type: with all such equalities in
a table, a message's own values lead to the few filters that may be TRUE. The remaining terms, ``amount >= 100``,
are the same for thousands of filters except for constants: without the constants they have one *shape*.

This is sound because a message passes only if a filter is TRUE: an OR is TRUE if one of its terms is, an AND if all
are, and ``=`` is TRUE exactly if the two values are equal, for every type whose equal values are the same value.
That excludes doubles (-0.0 equals 0.0); and booleans are left out because they lead nowhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from seriatim.kernel.filters.filter import (
    BOOLEAN,
    STRING,
    And,
    Compare,
    Constant,
    Expression,
    In,
    Or,
    Parameter,
    Property,
    ValueKind,
    decimal,
)
from seriatim.kernel.filters.filter_fold import nodes, parts, with_parts
from seriatim.kernel.filters.filter_typing import all_of

#: A filter that every message passes.
ALWAYS = Constant(True, BOOLEAN)

_TYPE = Property("type", STRING)
_KEYS = (ValueKind.STRING, ValueKind.LONG, ValueKind.DECIMAL, ValueKind.TIMESTAMP)
# An IN of more values isn't turned into parameters, one comparison each.
_MOST_COMPARISONS = 8
# Decimal constants of up to this many digits count as one type, so that 9.50 and 12.50 have one shape.
_SHORT = 18
# Decimals with fewer digits together, at the same number of places, are compared as int64.
_COMPARED = 17


@dataclass(frozen=True, slots=True)
class Equality:
    property: Property
    values: tuple[str | int | float | bool, ...]


@dataclass(frozen=True, slots=True)
class Rule:
    """A part of filter number `filter`: TRUE where `key` holds (None: always) and `rest` is TRUE."""

    filter: int
    key: Equality | None
    rest: Expression


def rules(filters: Sequence[Expression]) -> list[Rule]:
    terms = [(number, _terms(part)) for number, whole in enumerate(filters) for part in _alternatives(whole)]
    choices = [[(key, place) for place, term in enumerate(parts) if (key := _equality(term))] for _, parts in terms]
    # Of several equalities, the one that the fewest filters share leads to the fewest filters to try.
    popular = Counter((key.property, value) for values in choices for key, _ in values for value in key.values)
    made: list[Rule] = []
    for (number, joined), values in zip(terms, choices, strict=True):
        if not values:
            made.append(Rule(number, None, _rest(joined)))
            continue
        key, place = min(values, key=lambda choice: max(popular[choice[0].property, v] for v in choice[0].values))
        made.append(Rule(number, key, _rest([*joined[:place], *joined[place + 1 :]])))
    return made


def _alternatives(whole: Expression) -> tuple[Expression, ...]:
    """The terms of an OR, if each of them has an equality; else the whole."""
    if not isinstance(whole, Or) or _equality(whole) is not None:
        return (whole,)
    return whole.terms if all(any(map(_equality, _terms(part))) for part in whole.terms) else (whole,)


def _terms(part: Expression) -> tuple[Expression, ...]:
    return part.terms if isinstance(part, And) else (part,)


def _rest(terms: Sequence[Expression]) -> Expression:
    return all_of(terms) if terms else ALWAYS


def _equality(term: Expression) -> Equality | None:
    match term:
        case In(Property() as left, values) if values and left.type.kind in _KEYS:
            return Equality(left, values)
        case Or(parts):
            each = [_equality(part) for part in parts]
            first = each[0]
            if first is not None and all(key is not None and key.property == first.property for key in each):
                every = (value for key in each if key is not None for value in key.values)
                return Equality(first.property, tuple(dict.fromkeys(every)))
    return None


def properties(expression: Expression) -> Iterator[Property]:
    return (node for node in nodes(expression) if isinstance(node, Property))


def of_types(expression: Expression, types: Sequence[str]) -> Expression:
    """The filter for messages that pass the other filter and have one of the types."""
    return all_of([In(_TYPE, tuple(types)), expression])


def named_types(expression: Expression) -> set[str]:
    """The types of messages that a filter names, whether it matches them or not."""
    compared = (node for node in nodes(expression) if isinstance(node, In) and node.operand == _TYPE)
    return {str(value) for node in compared for value in node.values}


def shape(expression: Expression) -> tuple[Expression, tuple[Constant, ...]]:
    """Return an expression with parameters in place of its constants, numbered from 0, and the constants."""
    constants: list[Constant] = []
    return _shape(expression, constants), tuple(constants)


def _shape(expression: Expression, constants: list[Constant]) -> Expression:
    match expression:
        case Constant(value) if value is not None:
            constants.append(expression)
            return Parameter(len(constants) - 1, expression.type)
        case In(operand, values, null) if values and not null and len(values) <= _MOST_COMPARISONS:
            inner = _shape(operand, constants)
            each = tuple(Compare("=", inner, _shape(Constant(v, operand.type), constants)) for v in values)
            return each[0] if len(each) == 1 else Or(each)
        case Compare(_, left, right):
            inside: tuple[Expression, ...] = _roomy(left, right), _roomy(right, left)
        case _:
            inside = parts(expression)
    return with_parts(expression, [_shape(part, constants) for part in inside])


def _roomy(side: Expression, other: Expression) -> Expression:
    """Return a constant beside a comparison, where its digits don't matter, with room for other constants."""
    if not isinstance(side, Constant) or side.type.kind is not ValueKind.DECIMAL or side.type.precision > _SHORT:
        return side
    room = _COMPARED - max(side.type.scale, other.type.scale)
    fast = max(side.type.whole, other.type.whole) <= room
    return Constant(side.value, decimal(room + side.type.scale if fast else _SHORT, side.type.scale))
