"""How filters are taken apart so that a message finds those that it may pass."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seriatim.errors import InvariantBroken
from seriatim.kernel.filters.filter import In, type_from
from seriatim.kernel.filters.filter_eval import column, evaluate
from seriatim.kernel.filters.filter_typing import all_of
from seriatim.kernel.route import ALWAYS, Rule, properties, rules, shape
from seriatim.pipeline.filters.syntax import parsed
from tests.filters import filters, messages, read, schemas

TYPES = {
    name: type_from(kind)
    for name, kind in {"s": "string", "l": "long", "n": "decimal(12,2)", "d": "double", "b": "boolean"}.items()
}


def found(*texts: str) -> list[tuple[int, str | None, tuple[object, ...], str]]:
    """Each rule: the filter's number, the property and values by which it is found, and what is left of it."""
    names = {parsed(text, TYPES): text for text in ("l > 1", "l > 2", "d = 1", "b", "s LIKE 'x%'", "NOT s = 'a'")}
    return [
        (rule.filter, rule.key and rule.key.property.name, rule.key.values if rule.key else (), _name(rule, names))
        for rule in rules([parsed(text, TYPES) for text in texts])
    ]


def _name(rule: Rule, names: dict[object, str]) -> str:
    return "" if rule.rest == ALWAYS else names.get(rule.rest, "…")


def test_an_equality_leads_to_a_filter() -> None:
    assert found("s = 'a'") == [(0, "s", ("a",), "")]
    assert found("'a' = s AND l > 1") == [(0, "s", ("a",), "l > 1")]
    assert found("l > 1 AND s IN ('a', 'b', NULL)") == [(0, "s", ("a", "b"), "l > 1")]
    assert found("(s = 'a' OR s IN ('b', 'a')) AND l > 1") == [(0, "s", ("a", "b"), "l > 1")]
    assert found("n = 1.5") == [(0, "n", (150,), "")]
    assert found("l = 2.0") == [(0, "l", (2,), "")]


def test_each_term_of_an_or_is_a_rule_if_all_have_an_equality() -> None:
    assert found("s = 'a' OR l = 1 AND b") == [(0, "s", ("a",), ""), (0, "l", (1,), "b")]
    assert found("s = 'a' OR l > 1") == [(0, None, (), "…")]


def test_some_filters_have_no_equality_to_find_them_by() -> None:
    for text in ("l > 1", "d = 1", "b", "s LIKE 'x%'", "NOT s = 'a'"):
        assert found(text) == [(0, None, (), text)]
    assert found("TRUE") == [(0, None, (), "")]
    assert found("l = 0.5") == [(0, None, (), "…")]


def test_the_equality_that_fewer_filters_share_is_taken() -> None:
    texts = [f"s = 'all' AND l = {n}" for n in range(5)]
    assert [key for _, key, _, _ in found(*texts)] == ["l"] * 5
    texts = [f"s = 's{n}' AND l = 1" for n in range(5)]
    assert [key for _, key, _, _ in found(*texts)] == ["s"] * 5


def test_filters_that_differ_in_constants_have_one_shape() -> None:
    texts = ["n > 9.5 AND s = 'a'", "n > 1234.0 AND s = 'b'", "n > 12.5 AND s = ''"]
    shapes = [shape(parsed(text, TYPES)) for text in texts]
    assert len({form for form, _ in shapes}) == 1
    assert [[constant.value for constant in constants] for _, constants in shapes] == [
        [95, "a"],
        [12340, "b"],
        [125, ""],
    ]
    others = [
        shape(parsed(text, TYPES))[0] for text in ("n > 9.51 AND s = 'a'", "n >= 9.5 AND s = 'a'", "l > 9 AND s = 'a'")
    ]
    assert len({shapes[0][0], *others}) == 4
    with pytest.raises(InvariantBroken):
        evaluate(shapes[0][0], {"n": column([1], TYPES["n"]), "s": column(["a"], TYPES["s"])}, 1)


def test_the_properties_of_a_filter() -> None:
    text = "NOT (-l + n > 1 AND (s LIKE 'a' OR d IN (1, 2))) OR b IS NULL"
    assert [one.name for one in properties(parsed(text, TYPES))] == ["l", "n", "s", "d", "b"]


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_filter_is_true_where_one_of_its_rules_is(data: st.DataObject) -> None:
    types = data.draw(schemas())
    given_columns = {name: column(values, types[name]) for name, values in data.draw(messages(types)).items()}
    n = len(given_columns["long_1"].values)
    texts = data.draw(st.lists(filters(types), min_size=1, max_size=8))
    expressions = [expression for _, expression in read(texts, types)]
    expected = [evaluate(one, given_columns, n)[0] for one in expressions]
    true = [np.zeros(n, np.bool_) for _ in expressions]
    for rule in rules(expressions):
        key = [] if rule.key is None else [In(rule.key.property, rule.key.values)]
        true[rule.filter] |= evaluate(all_of([*key, rule.rest]), given_columns, n)[0]
    assert [one.tolist() for one in true] == [one.tolist() for one in expected]
