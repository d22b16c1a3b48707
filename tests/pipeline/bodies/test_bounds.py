"""Values that are larger than anything means: each is refused with an error of ours, in time that its size takes once."""

from __future__ import annotations

import inspect
from contextlib import suppress
from decimal import Decimal
from typing import Any

import pytest

import seriatim as sq
from seriatim import endpoints
from seriatim.errors import SeriatimError, UsageError, shown
from seriatim.pipeline.bodies.json_paths import path_steps
from seriatim.pipeline.bodies.property_values import Unreadable, converted, converter
from seriatim.pipeline.types.python_values import kept

#: Python doesn't write out a whole number of so many digits.
LARGE = 10**5_000

DECLARED: dict[type[Any], dict[str, Any]] = {
    sq.Activation: {"handler": "a:b"},
    sq.BestEffort: {},
    sq.Consumed: {"count": 1},
    sq.Contract: {"name": "c", "types": {"t": "initiator"}},
    sq.Fifo: {},
    endpoints.HttpPort: {"url": "http://x"},
    sq.Location: {"name": "l"},
    sq.Message: {"type": "t", "body": b""},
    sq.MessageType: {"name": "t"},
    sq.Part: {"name": "p", "body": b""},
    sq.Queue: {"name": "q"},
    sq.Service: {"name": "s", "queue": "q"},
    sq.Standard: {},
    sq.Subscription: {"name": "s", "where": "TRUE", "to": "q"},
    sq.UnitOfWork: {"size": 3},
}


@pytest.mark.parametrize("kind", DECLARED, ids=lambda kind: kind.__name__)
def test_a_number_that_is_too_large_is_told(kind: type[Any]) -> None:
    for name in inspect.signature(kind).parameters:
        for value in (LARGE, -LARGE, [LARGE], {"a": LARGE}, {LARGE: "a"}):
            with suppress(SeriatimError, TypeError):
                kind(**{**DECLARED[kind], name: value})


def test_how_a_value_is_shown() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    assert shown("it's") == '"it\'s"'
    assert shown("x" * 300, 10) == "'xxxxxxxxx…"
    assert shown(-LARGE) == "a whole number of more than 4,300 digits"
    assert shown((LARGE,)) == "a tuple with a whole number of more than 4,300 digits"
    assert shown(deep) == "a list that is nested too deeply"
    for _ in range(100_000):  # Python would take it apart by calling itself
        deep = deep[0]


@pytest.mark.parametrize(
    ("kind", "value", "says"),
    [
        ("long", LARGE, "a whole number of more than 4,300 digits is beyond the range of a long"),
        ("double", LARGE, "a whole number of more than 4,300 digits is beyond the range of a double"),
        ("double", 10**309, "is beyond the range of a double"),
        ("decimal(12,2)", LARGE, r"a whole number of more than 4,300 digits doesn't fit decimal\(12,2\)"),
        ("string", LARGE, "a whole number of more than 4,300 digits is too long for a string"),
        ("boolean", LARGE, "a whole number of more than 4,300 digits is not a boolean"),
        ("timestamp", LARGE, "a whole number of more than 4,300 digits is not a timestamp"),
        # Digit by digit from every digit these would take hours.
        ("double", "9" * 5_000_000 + "x", "9… is not a double|9…' is not a double"),
        ("decimal(12,2)", "9" * 5_000_000 + "x", "9…' is not a number"),
        ("long", "9" * 5_000_000 + "x", "9…' is not a long"),
        ("decimal(12,2)", Decimal("1e999999"), "doesn't fit"),
        ("long", Decimal("1e999999"), "beyond the range|is not a long"),
    ],
    ids=map(str, range(12)),
)
def test_a_value_that_is_too_large_is_no_property(kind: str, value: Any, says: str) -> None:
    with pytest.raises(Unreadable, match=says):
        converted("p", converter(kind), value)


def test_a_value_without_a_type_is_bounded_as_well() -> None:
    with pytest.raises(ValueError, match="a whole number of more than 4,300 digits is not finite, or has more"):
        kept(LARGE)


def test_a_place_in_a_list_is_a_number() -> None:
    with pytest.raises(UsageError, match="is not a path to one value"):
        path_steps(f"$.a[{'9' * 5_000}]")
