"""Properties of a message as values of one type."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest

import seriatim as sq

AT = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)
CONTEXT = {
    "customer": "c1", "version": 3, "amount": Decimal("1.50"), "weight": 0.5, "paid": True, "at": AT, "gone": None,
}  # fmt: skip
MESSAGE = sq.Message(type="order", message_id="m1", context=CONTEXT)


@pytest.mark.parametrize(
    ("getter", "name", "value"),
    [
        ("text", "customer", "c1"),
        ("whole", "version", 3),
        ("decimal", "amount", Decimal("1.50")),
        ("decimal", "version", Decimal(3)),
        ("double", "weight", 0.5),
        ("double", "version", 3.0),
        ("flag", "paid", True),
        ("moment", "at", AT),
    ],
)
def test_a_value_has_its_type(getter, name, value):
    found = getattr(MESSAGE, getter)(name)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("getter", "name", "told"),
    [
        ("text", "custmer", "message m1: there is no property 'custmer' (it has amount, at, customer, gone, paid, version, weight;"),
        ("text", "gone", "message m1: property 'gone' is null"),
        ("text", "version", "message m1: property 'version' is int, not text (declare its type in the message type)"),
        ("whole", "customer", "property 'customer' is str, not a whole number"),
        ("whole", "paid", "property 'paid' is bool, not a whole number"),
        ("decimal", "weight", "property 'weight' is float, not a decimal number"),
        ("double", "amount", "property 'amount' is Decimal, not a number"),
        ("flag", "version", "property 'version' is int, not true or false"),
        ("moment", "customer", "property 'customer' is str, not a timestamp"),
    ],
)  # fmt: skip
def test_another_value_is_a_business_failure(getter, name, told):
    with pytest.raises(sq.Business) as raised:
        getattr(MESSAGE, getter)(name)
    assert told in str(raised.value)
    assert "c1" not in str(raised.value)


@pytest.mark.parametrize("getter", ["text", "whole", "decimal", "double", "flag", "moment"])
@pytest.mark.parametrize("name", [[], {}, 5, None, b"version"])
def test_a_name_that_is_no_text_is_a_mistake_of_the_program(getter, name):
    with pytest.raises(sq.UsageError, match="can't be the name of a property") as raised:
        getattr(MESSAGE, getter)(name)
    assert (raised.value.arguments, raised.value.remedy) == (("name",), "text, such as 'customer'")
