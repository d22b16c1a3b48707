"""Bodies as models of Pydantic and msgspec."""

from __future__ import annotations

import json
from decimal import Decimal

import msgspec
import pydantic
import pytest

import seriatim as sq


class Line(pydantic.BaseModel):
    article: str
    price: Decimal


class Order(pydantic.BaseModel):
    number: int
    lines: list[Line] = []


@pydantic.dataclasses.dataclass
class Note:
    text: str


class Item(msgspec.Struct):
    article: str
    price: float


class Box(msgspec.Struct):
    inner: Box | None = None


class Nested(pydantic.BaseModel):
    inner: Nested | None = None


class Basket(msgspec.Struct):
    number: int
    lines: list[Item] = []


DEEP = b'{"inner": ' * 10_000 + b"null" + b"}" * 10_000


def message(body):
    return sq.Message(
        type="order", message_id="m1", body=body if isinstance(body, bytes) else json.dumps(body).encode()
    )


def test_it_is_an_object_of_the_class():
    order = sq.body_as(Order, message({"number": 7, "lines": [{"article": "a", "price": "1.20"}]}))
    assert order == Order(number=7, lines=[Line(article="a", price=Decimal("1.20"))])
    assert sq.body_as(Note, message({"text": "x"})) == Note("x")
    assert sq.body_as(Basket, message({"number": 7, "lines": [{"article": "a", "price": 1.2}]})) == Basket(
        7, [Item("a", 1.2)]
    )


@pytest.mark.parametrize(
    ("model", "body", "told"),
    [
        (Order, {"number": 7, "lines": [{"article": "a", "price": "secret"}]}, "$.lines[0].price: Input should be a valid decimal"),
        (Order, {}, "$.number: Field required"),
        (Order, b"{", "$: Invalid JSON"),
        (Order, b"", "$: Invalid JSON"),
        (Order, {"number": "x", "lines": [{}, {}]}, "and 2 more"),
        (Basket, {"number": 7, "lines": [{"article": "a", "price": "secret"}]}, "$.lines[0].price: Expected `float`, got `str`"),
        (Basket, {}, "$: Object missing required field `number`"),
        (Basket, b"\xff", "$: "),
        pytest.param(Box, DEEP, "$: it is nested too deeply", id="a deep struct"),
        pytest.param(Nested, DEEP, "$: Invalid JSON: recursion limit exceeded", id="a deep model"),
    ],
)  # fmt: skip
def test_a_body_that_does_not_fit_is_a_business_failure(model, body, told):
    with pytest.raises(sq.Business) as raised:
        sq.body_as(model, message(body))
    text = str(raised.value)
    assert text.startswith(f"message m1: the body doesn't fit {model.__name__}: $")
    assert told in text
    assert "secret" not in text


@pytest.mark.parametrize("model", [dict, int, Order(number=1), list[int]])
def test_another_class_is_refused(model):
    with pytest.raises(sq.UsageError, match="is not a model"):
        sq.body_as(model, message({}))


class Key(pydantic.BaseModel):
    customer: str
    version: int
    amount: Decimal = Decimal(0)


class Place(msgspec.Struct):
    customer: str
    version: int
    amount: Decimal = Decimal(0)


CONTEXT = {"customer": "c1", "version": 3, "amount": Decimal("1.5"), "location": "crm"}


@pytest.mark.parametrize("model", [Key, Place])
def test_properties_are_an_object_of_the_class(model):
    with_properties = sq.Message(type="order", context=CONTEXT)
    assert sq.context_as(model, with_properties) == model(customer="c1", version=3, amount=Decimal("1.5"))


@pytest.mark.parametrize(
    ("model", "told"),
    [(Key, "$.version: Input should be a valid integer"), (Place, "$.version: Expected `int`, got `str`")],
)
def test_properties_that_do_not_fit_are_a_business_failure(model, told):
    wrong = sq.Message(type="order", message_id="m1", context={"customer": "c1", "version": "secret"})
    with pytest.raises(sq.Business) as raised:
        sq.context_as(model, wrong)
    assert str(raised.value).startswith(f"message m1: the properties don't fit {model.__name__}: {told}")
    assert "secret" not in str(raised.value)
