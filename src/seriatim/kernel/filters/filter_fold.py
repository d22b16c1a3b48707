"""One walk over filters: a meaning gives a function for each kind of node, and `fold` calls it with the results of the parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from seriatim.kernel.filters.filter import (
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
)

_T = TypeVar("_T")

#: The fields with expressions, for each kind of node that has other fields than `terms`.
_FIELDS: Mapping[type[Expression], tuple[str, ...]] = {
    Property: (),
    Constant: (),
    Parameter: (),
    Convert: ("operand",),
    Arithmetic: ("left", "right"),
    Compare: ("left", "right"),
    In: ("operand",),
    Like: ("operand",),
    IsNull: ("operand",),
    Not: ("term",),
}

#: A function for each kind of node; it takes the node, and the results of its parts.
Meaning = Mapping[type[Expression], Callable[..., _T]]


def fold(
    expression: Expression, meaning: Meaning[_T], shared: MutableMapping[Expression, _T | None] | None = None
) -> _T:
    """The result of a meaning for an expression. `meaning`: the function for each kind of node. `shared`: expressions that are computed
    once, None until then; it is filled.
    """
    if shared and (value := shared.get(expression)) is not None:
        return value
    result = meaning[type(expression)](expression, *[fold(part, meaning, shared) for part in parts(expression)])
    if shared and expression in shared:
        shared[expression] = result
    return result


def parts(expression: Expression) -> tuple[Expression, ...]:
    if isinstance(expression, And | Or):
        return expression.terms
    return tuple(getattr(expression, name) for name in _FIELDS[type(expression)])


def with_parts(expression: Expression, new: Sequence[Expression]) -> Expression:
    if isinstance(expression, And | Or):
        return replace(expression, terms=tuple(new))
    fields: dict[str, Any] = dict(zip(_FIELDS[type(expression)], new, strict=True))
    return replace(expression, **fields)


def nodes(expression: Expression) -> Iterator[Expression]:
    yield expression
    for part in parts(expression):
        yield from nodes(part)
