"""What filters mean in the kernel: case by case, over columns, and in types."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from seriatim.errors import FilterError
from seriatim.kernel.filters.filter import Property, type_from
from seriatim.kernel.filters.filter_eval import Filters, Values, column, evaluate
from seriatim.kernel.filters.filter_typing import calculated, number
from seriatim.pipeline.filters.syntax import parsed
from tests.filter_cases import CASES, TYPES, as_kept


def holds(text: str, **properties: Any) -> bool | None:
    """A filter for one message; None: unknown."""
    given = {name: column([as_kept(name, properties.get(name))], kind) for name, kind in TYPES.items()}
    true, known = evaluate(parsed(text, TYPES), given, 1)
    assert not true[0] or known[0]
    return bool(true[0]) if known[0] else None


@pytest.mark.parametrize(("text", "properties", "expected"), CASES, ids=[f"{text} of {of}" for text, of, _ in CASES])
def test_meaning(text: str, properties: dict[str, Any], expected: bool | None) -> None:
    assert holds(text, **properties) is expected


def test_columns_are_computed_at_once() -> None:
    n = 1_000
    given = {"l": Values(np.arange(n), np.arange(n) % 10 != 0), "s": column([str(i % 3) for i in range(n)], TYPES["s"])}
    true, known = evaluate(parsed("l % 2 = 1 AND s = '1'", TYPES), given, n)
    assert true.tolist() == [i % 2 == 1 and i % 10 != 0 and i % 3 == 1 for i in range(n)]
    assert known.tolist() == [i % 10 != 0 or i % 3 != 1 for i in range(n)]


def test_what_is_unknown_is_not_looked_at() -> None:
    given = {"s": Values(np.array([None, "a"], object), np.array([False, True]))}
    given["z"] = Values(np.array([None, 1], object), np.array([False, True]))
    true, known = evaluate(parsed("s LIKE 'a%' AND s < 'b' AND z + 1 > 1 AND s IN ('a')", TYPES), given, 2)
    assert (true.tolist(), known.tolist()) == ([False, True], [False, True])


def test_no_messages() -> None:
    given = {name: column([], kind) for name, kind in TYPES.items()}
    for text in ("TRUE", "s LIKE '%a_'", "l + 1 > 2 OR z IN (1, 2)", "n / 2 > d"):
        true, known = evaluate(parsed(text, TYPES), given, 0)
        assert (len(true), len(known)) == (0, 0)


def test_many_filters_share_what_they_have_in_common() -> None:
    texts = [f"s = 'a' AND l > {n}" for n in range(5)] + ["s = 'a'", "TRUE", "l > 3 AND s = 'a' AND s = 'a'"]
    given = {"s": column(["a", "b", None, "a"], TYPES["s"]), "l": column([1, 9, 9, 4], TYPES["l"])}
    filters = [parsed(text, TYPES) for text in texts]
    for _ in range(2):
        together = [true.tolist() for true in Filters(filters).true(given, 4)]
        assert together == [evaluate(one, given, 4)[0].tolist() for one in filters]


@pytest.mark.parametrize(
    ("left", "operator", "right", "kind"),
    [
        ("decimal(12,2)", "+", "decimal(12,2)", "decimal(13,2)"),
        ("decimal(12,2)", "*", "decimal(5,3)", "decimal(18,5)"),
        ("decimal(12,2)", "*", "long", "decimal(32,2)"),
        ("decimal(38,2)", "+", "decimal(38,4)", "decimal(38,4)"),
        ("decimal(38,2)", "*", "decimal(2,1)", "decimal(38,3)"),
        ("decimal(12,2)", "%", "decimal(5,3)", "decimal(5,3)"),
        ("decimal(12,2)", "/", "long", "double"),
        ("long", "/", "long", "double"),
        ("long", "%", "long", "long"),
        ("decimal(12,2)", "+", "double", "double"),
    ],
)
def test_how_many_digits_a_result_has(left: str, operator: Any, right: str, kind: str) -> None:
    operands = [Property("x", type_from(written)) for written in (left, right)]
    assert str(calculated(operator, *operands).type) == kind


@pytest.mark.parametrize("pair", [("decimal(38,18)", "long"), ("decimal(38,2)", "decimal(38,2)")])
def test_a_product_that_no_decimal_has_room_for_is_refused(pair: tuple[str, str]) -> None:
    with pytest.raises(FilterError, match="more digits than the 38"):
        calculated("*", *(Property("x", type_from(written)) for written in pair))


@pytest.mark.parametrize(
    ("text", "kind"),
    [("1", "long"), ("1.50", "decimal(3,2)"), (".5", "decimal(1,1)"), ("0.05", "decimal(2,2)"), ("1.", "decimal(1,0)"), ("1e3", "double"), ("9223372036854775807", "long"), ("9223372036854775808", "decimal(19,0)"), ("000", "long"), ("0.", "decimal(1,0)")],
)  # fmt: skip
def test_the_type_of_a_number(text: str, kind: str) -> None:
    assert str(number(text).type) == kind


@pytest.mark.parametrize("text", ["1" * 39, "1." + "0" * 38, "1e309", "9" * 5000])
def test_a_number_without_a_type_is_refused(text: str) -> None:
    with pytest.raises(FilterError):
        number(text)


@pytest.mark.parametrize("written", ["int", "decimal", "decimal(39,0)", "decimal(2,3)", "decimal(0,0)", ""])
def test_a_type_that_is_none_is_refused(written: str) -> None:
    with pytest.raises(FilterError, match="is not a type of properties"):
        type_from(written)
