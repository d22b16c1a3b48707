"""Parse a filter's text to its expression; this module owns the syntax.

sqlglot reads a far larger language than that of filters: `words.py` checks the words before sqlglot gets them,
and this module reads sqlglot's tree, and refuses everything that is no part of a filter.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from sqlglot import exp
from sqlglot.errors import ParseError
from sqlglot.parser import Parser

from seriatim.errors import FilterError
from seriatim.kernel.filters import filter_typing as typing
from seriatim.kernel.filters.filter import BOOLEAN, NULL, STRING, TIMESTAMP, Constant, Expression, Not, Property, Type
from seriatim.pipeline.filters.words import ALLOWED, DEEPEST_CHAIN, FilterText, Words

_LONGEST_PATTERN = 1_000
_MOST_TERMS = 2_000
#: The most filters that are remembered, and for each the last few typings of its names.
_MOST_REMEMBERED, _MOST_TYPINGS = 65_536, 4

_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d)(:\d\d)?(\.\d{1,6})?)?\s*(Z|[+-]\d\d:\d\d)?", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parsed(
    text: str, types: Mapping[str, Type], *, where: str = "", unfit: Mapping[str, str] = MappingProxyType({})
) -> Expression:
    remembered = _remembered(text)
    for used, expression in remembered:
        if all(types.get(name) == kind for name, kind in used.items()):
            return expression
    written = FilterText(text, types, where, unfit)
    words = Words(written)
    found = _Reader(written, words.names).filter(_tree(written, words))
    remembered.append(({name: types[name] for name in words.names}, found))
    del remembered[:-_MOST_TYPINGS]
    return found


@lru_cache(maxsize=_MOST_REMEMBERED)
def _remembered(text: str) -> list[tuple[dict[str, Type], Expression]]:
    """Parse a text, cached by the types of the properties that it names, on which alone the result depends. Parsing would be by far the
    largest cost of changing one of many filters.
    """
    return []


def named(text: str, *, where: str = "") -> frozenset[str]:
    """Return the names in a filter's text, for use when the properties aren't known yet. Arguments as for `parsed`."""
    try:
        return _named(text)
    except FilterError as error:
        place = f"{where}:{error.where}" if where else error.where
        raise FilterError(error.what, where=place, remedy=error.remedy) from None


@lru_cache(maxsize=_MOST_REMEMBERED)
def _named(text: str) -> frozenset[str]:
    written = FilterText(text, {}, "", {}, anything=True)
    words = Words(written)
    _tree(written, words)
    return frozenset(words.names)


def _tree(written: FilterText, words: Words) -> exp.Expr:
    try:
        trees = Parser().parse_into(exp.Condition, words.tokens, written.text)
    except ParseError as error:
        raise words.unexpected(error) from None
    except RecursionError:
        raise written.too_deep(0) from None
    tree = next((one for one in trees if one is not None), None)
    if tree is None or len(trees) != 1:
        raise written.error(0, "there is no filter", "write TRUE for all messages")
    # Where a value is missing sqlglot takes some keywords for a name; names are in quotes by now.
    taken = next((one for one in tree.find_all(exp.Identifier) if not one.args.get("quoted")), None)
    if taken is not None:
        raise words.not_expected(taken.meta.get("start", 0))
    return tree


class _Reader:
    """Reads sqlglot's tree of one filter; `names` maps the numbers in it to names."""

    def __init__(self, written: FilterText, names: Sequence[str]) -> None:
        self._written = written
        self._names = names

    def filter(self, tree: exp.Expr) -> Expression:
        self._check_size(tree)
        return self._typed(tree, typing.condition, self._read(tree))

    def _check_size(self, tree: exp.Expr) -> None:
        """Check the size. Chains are nested, too: ``a + b + c``. Chains of AND and OR are not, and the values of IN are not counted."""
        terms, waiting = 0, [(tree, 0)]
        while waiting:
            node, depth = waiting.pop()
            terms += 1
            if depth > DEEPEST_CHAIN:
                raise self._written.too_deep(self._place(node))
            if terms > _MOST_TERMS:
                raise self._written.error(self._place(node), "the filter is too long", f"at most {_MOST_TERMS:,} terms")
            inner = [node.this] if isinstance(node, exp.In) else _chain(node) or list(node.iter_expressions())
            waiting += [(one, depth + 1) for one in inner if not isinstance(one, exp.DataType | exp.Identifier)]

    def _typed(self, node: exp.Expr, build: Callable[..., Expression], *operands: Any) -> Expression:
        """Return the result of `build` for the operands; an error gets the place of `node`."""
        try:
            return build(*operands)
        except FilterError as error:
            raise self._written.error(self._place(node), error.what, error.remedy) from None

    def _place(self, node: exp.Expr) -> int:
        places = [one.meta["start"] for one in node.walk() if "start" in one.meta]
        return min(places, default=0)

    def _read(self, node: exp.Expr) -> Expression:  # noqa: C901, PLR0911, PLR0912 - a case a node
        self._check_parts(node)
        match node:
            case exp.Paren():
                return self._read(node.this)
            case exp.Column():
                name = self._names[int(node.this.this)]
                return Property(name, self._written.types[name])
            case exp.Literal() if node.is_string:
                return Constant(self._text(node), STRING)
            case exp.Literal():
                return self._typed(node, typing.number, node.this)
            case exp.Boolean():
                return Constant(bool(node.this), BOOLEAN)
            case exp.Null():
                return Constant(None, NULL)
            case exp.Cast(this=exp.Literal(is_string=True) as moment):
                return self._moment(moment)
            case exp.Neg():
                return self._typed(node, typing.negated, self._read(node.this))
            case exp.Not():
                return Not(self._typed(node, typing.condition, self._read(node.this)))
            case exp.And():
                return self._typed(node, typing.all_of, [self._read(term) for term in _chain(node)])
            case exp.Or():
                return self._typed(node, typing.any_of, [self._read(term) for term in _chain(node)])
            case exp.Is(expression=exp.Null()):
                return typing.is_null(self._read(node.this))
            case exp.Is():
                raise self._written.error(
                    self._place(node), "IS goes with NULL and NOT NULL only", "compare with = TRUE"
                )
            case exp.In():
                return self._listed(node)
            case exp.Between():
                return self._between(node)
            case exp.Escape(this=exp.Like() as inner, expression=exp.Literal(is_string=True) as escape):
                return self._like(inner, escape)
            case exp.Like():
                return self._like(node, None)
            case exp.Binary() if type(node) in _COMPARISONS:
                return self._binary(node, typing.compared, _COMPARISONS[type(node)])
            case exp.Binary() if type(node) in _CALCULATIONS:
                return self._binary(node, typing.calculated, _CALCULATIONS[type(node)])
        raise self._written.error(self._place(node), f"{type(node).__name__} is not part of a filter", ALLOWED)

    def _check_parts(self, node: exp.Expr) -> None:
        known = _PARTS.get(type(node), ("this", "expression"))
        if any(value and name not in known for name, value in node.args.items()):
            raise self._written.error(self._place(node), f"this {type(node).__name__} is not part of a filter", ALLOWED)

    def _binary(self, node: exp.Binary, build: Callable[..., Expression], operator: str) -> Expression:
        return self._typed(node, build, operator, self._read(node.left), self._read(node.right))

    def _text(self, node: exp.Literal) -> str:
        value = str(node.this)
        if re.search("[\ud800-\udfff]", value):
            raise self._written.error(self._place(node), "half a surrogate pair is no text")
        return value

    def _listed(self, node: exp.In) -> Expression:
        if not node.expressions:
            raise self._written.error(self._place(node), "IN takes constants in parentheses", "x IN ('a', 'b')")
        values = [self._read(one) for one in node.expressions]
        for written, value in zip(node.expressions, values, strict=True):
            if not isinstance(value, Constant):
                raise self._written.error(self._place(written), "IN takes constants only", "write x = a OR x = b")
        return self._typed(node, typing.listed, self._read(node.this), values)

    def _between(self, node: exp.Between) -> Expression:
        operand, low, high = (self._read(node.args[part]) for part in ("this", "low", "high"))
        least = self._typed(node, typing.compared, ">=", operand, low)
        return self._typed(node, typing.all_of, [least, self._typed(node, typing.compared, "<=", operand, high)])

    def _like(self, node: exp.Like, escape: exp.Literal | None) -> Expression:
        self._check_parts(node)
        pattern = node.expression
        if not isinstance(pattern, exp.Literal) or not pattern.is_string:
            raise self._written.error(self._place(pattern), "the pattern of LIKE must be text in quotes")
        written = self._text(pattern)
        if len(written) > _LONGEST_PATTERN:
            raise self._written.error(
                self._place(pattern), f"the pattern has more than {_LONGEST_PATTERN:,} characters"
            )
        character = "\\" if escape is None else self._text(escape)
        if len(character) != 1 or character in "%_":
            raise self._written.error(self._place(escape or node), "ESCAPE takes one character, neither % nor _")
        found = self._typed(node, typing.like, self._read(node.this), written, character)
        return Not(found) if node.args.get("negate") else found

    def _moment(self, node: exp.Literal) -> Expression:
        found = _MOMENT.fullmatch(str(node.this).strip())
        remedy = "TIMESTAMP '2026-01-31 12:00:00.000001+01:00'; without a zone it is UTC"
        if found is None or (found[4] and not found[3]):
            raise self._written.error(self._place(node), f"{str(node.this)[:40]!r} is not a moment", remedy)
        day, clock, second, fraction, zone = found.groups(default="")
        try:
            text = f"{day} {clock or '00:00'}{second or ':00'}{(fraction or '.0').ljust(7, '0')}"
            moment = datetime.fromisoformat(f"{text}{zone.replace('Z', '') or '+00:00'}")
        except ValueError as error:
            raise self._written.error(self._place(node), f"{str(node.this)[:40]!r}: {error}", remedy) from None
        return Constant((moment - _EPOCH) // timedelta(microseconds=1), TIMESTAMP)


_COMPARISONS: Mapping[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_CALCULATIONS: Mapping[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
    exp.BitwiseAnd: "&",
}
_PARTS: Mapping[type[exp.Expr], tuple[str, ...]] = {
    exp.Between: ("this", "low", "high"),
    exp.Cast: ("this", "to"),
    exp.In: ("this", "expressions", "field"),
    exp.Like: ("this", "expression", "negate"),
    exp.Literal: ("this", "is_string"),
}


def _chain(node: exp.Expr) -> list[exp.Expr]:
    """Return the terms of ``a AND b AND c``, or of OR; of other nodes none."""
    if not isinstance(node, exp.And | exp.Or):
        return []
    terms: list[exp.Expr] = []
    waiting: list[exp.Expr] = [node]
    while waiting:
        one = waiting.pop()
        if type(one) is type(node):
            waiting += [one.right, one.left]
        else:
            terms.append(one)
    return terms
