"""Looking filters up finds those that trying each one finds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seriatim.kernel import match
from seriatim.kernel.filters.filter import BOOLEAN, Compare, Constant, Expression, Type, type_from
from seriatim.kernel.filters.filter_eval import Values, column, evaluate
from seriatim.kernel.filters.filter_function import as_function
from seriatim.kernel.match import Matcher
from seriatim.kernel.route import shape
from seriatim.pipeline.filters.syntax import parsed
from tests.filter_cases import CASES, as_kept
from tests.filter_cases import TYPES as CASE_TYPES
from tests.filters import constants, filters, messages, read, schemas
from tests.soak import sized

TYPES = {
    name: type_from(kind)
    for name, kind in {
        "s": "string",
        "region": "string",
        "l": "long",
        "n": "decimal(12,2)",
        "w": "decimal(38,4)",
        "d": "double",
        "b": "boolean",
        "t": "timestamp",
    }.items()
}
# Every way to try filters: as it is; one by one; as pairs over arrays; in crowds, over tables; messages in many runs.
WAYS: dict[str, dict[str, int]] = {
    "as is": {"_FEW": match._FEW},
    "one by one": {"_FEW": 10**9},
    "pairs": {"_FEW": 0, "_CROWD": 10**9},
    "crowds": {"_FEW": 0, "_CROWD": 1},
    "runs": {"_FEW": 2, "_CROWD": 3, "_MOST_MESSAGES": 3, "_MOST_TRIED": 5},
}


def columns_of(values: Mapping[str, Sequence[Any]], types: Mapping[str, Type] = TYPES) -> dict[str, Values]:
    n = len(next(iter(values.values())))
    return {name: column(values.get(name, [None] * n), kind) for name, kind in types.items()}


def found(expressions: Sequence[Expression], columns: Mapping[str, Values], n: int) -> list[tuple[int, int]]:
    """The pairs that a matcher finds; they have the promised type and order."""
    rows, numbers = Matcher(expressions).matches(columns, n)
    assert rows.dtype == numbers.dtype == np.int64
    pairs = list(zip(rows.tolist(), numbers.tolist(), strict=True))
    assert pairs == sorted(set(pairs))
    return pairs


def tried(expressions: Sequence[Expression], columns: Mapping[str, Values], n: int) -> list[tuple[int, int]]:
    """The same, each filter by itself."""
    true = [evaluate(one, columns, n)[0].tolist() for one in expressions]
    return [(row, number) for row in range(n) for number in range(len(expressions)) if true[number][row]]


def same(texts: Sequence[str], values: Mapping[str, Sequence[Any]]) -> list[tuple[int, int]]:
    """What filters match which messages, in every way of finding it."""
    expressions = [parsed(text, TYPES) for text in texts]
    columns = columns_of(values)
    n = len(next(iter(values.values())))
    expected = tried(expressions, columns, n)
    for way in WAYS.values():
        with patch.multiple(match, **way):
            assert found(expressions, columns, n) == expected
    return expected


@st.composite
def keyed(draw: st.DrawFn, types: dict[str, Type]) -> str:
    """Filters with equalities: of few values, so that messages lead to them; alone, with something left, in an OR."""
    names = sorted(name for name, kind in types.items() if kind.kind not in ("double", "boolean"))
    equal = []
    for _ in range(draw(st.integers(1, 2))):
        name = draw(st.sampled_from(names))
        some = draw(st.lists(constants(types[name]), min_size=1, max_size=3))
        equal.append(f"{name} IN ({', '.join(some)})" if len(some) > 1 else f"{name} = {some[0]}")
    rest = draw(st.none() | filters(types, 1))
    both = f"({' OR '.join(equal)})" if draw(st.booleans()) else " AND ".join(equal)
    return both if rest is None else f"{both} {draw(st.sampled_from(['AND', 'OR']))} {rest}"


@pytest.mark.soak
@settings(max_examples=sized(2_000, 60, 12), deadline=None)
@given(data=st.data())
def test_it_finds_what_trying_each_filter_finds(data: st.DataObject) -> None:
    types = data.draw(schemas())
    values = data.draw(messages(types))
    n = len(values["long_1"])
    texts = data.draw(st.lists(filters(types, 2) | keyed(types), min_size=1, max_size=12))
    texts += data.draw(st.lists(st.sampled_from(texts), max_size=4))
    expressions = [expression for _, expression in read(texts, types)]
    columns = columns_of(values, types)
    with patch.multiple(match, **data.draw(st.sampled_from(list(WAYS.values())))):
        assert found(expressions, columns, n) == tried(expressions, columns, n)


@pytest.mark.soak
@settings(max_examples=sized(2_000, 60, 12), deadline=None)
@given(data=st.data())
def test_a_filter_as_a_function_means_the_same(data: st.DataObject) -> None:
    types = data.draw(schemas())
    values = data.draw(messages(types, most=6))
    columns = columns_of(values, types)
    n = len(values["long_1"])
    for text, expression in read(data.draw(st.lists(filters(types), min_size=1, max_size=6)), types):
        true, known = evaluate(expression, columns, n)
        expected = [bool(true[row]) if known[row] else None for row in range(n)]
        given_values = [{name: some[row] for name, some in values.items()} for row in range(n)]
        form, taken = shape(expression)
        parameters = [constant.value for constant in taken]
        for function in (as_function(expression), as_function(form)):
            assert [function(one, parameters) for one in given_values] == expected, text
        by_parameter = evaluate(form, columns, n, [column([one.value], one.type) for one in taken])
        assert [some.tolist() for some in by_parameter] == [true.tolist(), known.tolist()], text


@pytest.mark.parametrize(("text", "properties", "expected"), CASES, ids=[f"{text} of {of}" for text, of, _ in CASES])
def test_meaning(text: str, properties: dict[str, Any], expected: bool | None) -> None:
    message = {name: as_kept(name, properties.get(name)) for name in CASE_TYPES}
    expression = parsed(text, CASE_TYPES)
    assert as_function(expression)(message, ()) is expected
    columns = columns_of({name: [value] for name, value in message.items()}, CASE_TYPES)
    for way in WAYS.values():
        with patch.multiple(match, **way):
            assert found([expression], columns, 1) == ([(0, 0)] if expected else [])


def test_equalities_of_every_type_that_is_looked_up() -> None:
    texts = [
        "s = 'a'",
        "s = 'é'",
        "l = 2",
        "l = 2.0",
        "l = 2.5",
        "n = 1.5",
        "n = 1.500",
        "n = 1.501",
        "n = 1",
        "w = 12345678901234567890.1234",
        "w = 1",
        "t = TIMESTAMP '1970-01-01 01:00:00.000001+01:00'",
        "d = 0",
        "b = TRUE",
        "n = l",
    ]
    pairs = same(
        texts,
        {
            "s": ["a", "é", None, "A"],
            "l": [2, None, 1, -(2**63)],
            "n": [150, 100, None, 15],
            "w": [123456789012345678901234, 10_000, None, 1],
            "t": [1, 0, None, -1],
            "d": [-0.0, 0.0, None, 0.5],
            "b": [True, False, None, False],
        },
    )
    assert [number for row, number in pairs if row == 0] == [0, 2, 3, 5, 6, 9, 11, 12, 13]
    assert {row for row, _ in pairs} == {0, 1}


def test_what_is_unknown_leads_nowhere_whatever_stands_there() -> None:
    given_columns = columns_of({"s": ["x", "x", "x"]})
    unknown = np.array([False, False, True])
    given_columns["s"] = Values(np.array(["a", [], "a"], object), unknown)
    given_columns["l"] = Values(np.array([7, 7, 7]), unknown)
    expressions = [parsed(text, TYPES) for text in ("s = 'a'", "l = 7", "s = 'a' AND l > 6", "l IS NULL")]
    assert found(expressions, given_columns, 3) == [(0, 3), (1, 3), (2, 0), (2, 1), (2, 2)]


def test_a_column_of_length_one_stands_for_all_messages() -> None:
    given_columns = columns_of({"l": list(range(50))}) | {"s": column(["a"], TYPES["s"])}
    given_columns["n"] = Values(np.arange(50), np.array([True]))
    expressions = [
        parsed(text, TYPES) for text in ("s = 'a' AND l < 40", "n > 0.2 AND s LIKE 'a%'", "s = 'b'", "s <> 'b'")
    ]
    assert found(expressions, given_columns, 50) == tried(expressions, given_columns, 50)


@pytest.mark.dear
def test_a_large_list_is_a_key_or_tried() -> None:
    listed = ", ".join(str(n) for n in range(0, 20_000, 2))
    texts = [f"l IN ({listed})", f"l NOT IN ({listed})", f"l IN ({listed}) AND s = 'a'", f"l IN ({listed}) OR b"]
    pairs = same(texts, {"l": [4, 5, None, 20_000], "s": ["a", "a", "a", "b"], "b": [False, None, True, False]})
    assert pairs == [(0, 0), (0, 2), (0, 3), (1, 1), (2, 3), (3, 1)]


def test_filters_that_are_the_same_are_all_found() -> None:
    pairs = same(["s = 'a'"] * 30 + ["l > 1"] * 30 + ["s = 'a' AND l > 1"] * 30, {"s": ["a"] * 3, "l": [1, 2, None]})
    assert len(pairs) == 30 + 90 + 30


def test_a_filter_that_is_found_by_several_values_is_found_once() -> None:
    assert same(["s = 'a' OR l = 1 OR n = 1.5 AND b"], {"s": ["a", "b"], "l": [1, 2], "n": [150, 150], "b": [True, None]}) == [(0, 0)]  # fmt: skip


def test_many_filters_behind_one_value() -> None:
    texts = [f"region = 'north' AND n >= {n % 40}.5 AND s LIKE 'a%'" for n in range(300)] + ["region = 'north'"]
    values = {
        "region": ["north", "south", None, "north"] * 10,
        "n": [n * 100 for n in range(40)],
        "s": ["ab", "b"] * 20,
    }
    assert len(same(texts, values)) > 300


def test_what_goes_wrong_while_computing_is_unknown() -> None:
    texts = [f"s = 'a' AND l {operator} {n} > 0" for operator in ("*", "/", "%", "+") for n in (0, 2, 10**18, -1)]
    assert same(texts, {"s": ["a"] * 5, "l": [2**63 - 1, -(2**63), 0, None, 7]})


def test_messages_in_many_runs() -> None:
    values = {"s": ["a", "b", None, "c", "b", "a", "d"], "l": [1, 2, 3, None, 5, 6, 7]}
    pairs = same(["s = 'b'", "s IN ('a', 'd') AND l > 5", "l > 6", "s = 'c' OR l = 3"], values)
    assert pairs == [(1, 0), (2, 3), (3, 3), (4, 0), (5, 1), (6, 1), (6, 2)]


def test_doubles_and_decimals_at_their_ends() -> None:
    nan, inf = float("nan"), float("inf")
    doubles = [nan, inf, -inf, 0.5, None]
    same(
        ["d < 0e0 / 1 + d", "d <= 1e0", "d < 1e0 - d", "d % 1e0 = d % 2e0", "1e0 % d = 1", "d * 0e0 = d"],
        {"d": doubles},
    )
    wide = [10**38 - 1, -(10**38) + 1, 10**37, 10**37 - 1, 10**36, 10**36 - 1, None]
    same(
        ["w + w > 0", "w + 1 <> 0", "w * 10 <> 0", "w - 0.00001 <> w", "w % 7 = 3", "n = w / 1"],
        {"w": wide, "n": [1] * 7},
    )


def test_short_decimals_are_compared_as_int64() -> None:
    for text in ("n >= 100", "100.5 > n", "n < 0.123456", "n > 12345678901"):
        form, (constant,) = shape(parsed(text, TYPES))
        assert isinstance(form, Compare)
        assert max(form.left.type.whole, form.right.type.whole) + max(form.left.type.scale, form.right.type.scale) < 18
        assert constant.type in (form.left.type, form.right.type)


def test_no_filters_no_messages_and_filters_of_constants() -> None:
    nothing = columns_of({"s": []})
    assert found([], columns_of({"s": ["a"]}), 1) == []
    assert found([], nothing, 0) == []
    assert found([parsed(text, TYPES) for text in ("TRUE", "s = 'a'", "l > 1")], nothing, 0) == []
    assert same(["TRUE", "FALSE", "NULL", "1 = 1", "l IN (0.5)"], {"l": [0, None]}) == [(0, 0), (0, 3), (1, 0), (1, 3)]
    assert found([Constant(None, BOOLEAN)], {}, 2) == []


def test_the_properties_that_filters_name() -> None:
    texts = ["s = 'a' AND l > 1", "n > 1 OR b", "TRUE"]
    matcher = Matcher([parsed(text, TYPES) for text in texts])
    assert dict(matcher.properties) == {name: TYPES[name] for name in ("s", "l", "n", "b")}
    only = {name: one for name, one in columns_of({"s": ["a"], "l": [2]}).items() if name in matcher.properties}
    assert [part.tolist() for part in matcher.matches(only, 1)] == [[0, 0], [0, 2]]
    with pytest.raises(KeyError):
        matcher.matches({"s": only["s"]}, 1)


@settings(max_examples=300, deadline=None)
@given(st.text("ab%_", max_size=8), st.lists(st.text("ab", max_size=8), min_size=1, max_size=8))
def test_patterns(pattern: str, texts: list[str]) -> None:
    expression = parsed(f"s LIKE '{pattern}'", TYPES)
    true, _ = evaluate(expression, {"s": column(texts, TYPES["s"])}, len(texts))
    assert [as_function(expression)({"s": text}, ()) for text in texts] == true.tolist()


def test_threads_may_share_it() -> None:
    texts = [f"s = 's{n % 50}' AND l > {n}" for n in range(500)] + ["l > 1 OR b", "s LIKE '%7'"]
    expressions = [parsed(text, TYPES) for text in texts]
    matcher = Matcher(expressions)
    columns = columns_of({"s": [f"s{n}" for n in range(60)], "l": [n * 9 for n in range(60)]})
    with ThreadPoolExecutor(8) as pool:
        every = list(pool.map(lambda _: [part.tolist() for part in matcher.matches(columns, 60)], range(40)))
    expected = tried(expressions, columns, 60)
    assert all(list(zip(*one, strict=True)) == expected for one in every)
