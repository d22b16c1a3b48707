"""What the properties of a box's messages read as: numbers by the kernel's table; and how a hole is declared that is skipped."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import psycopg
import pyarrow as pa

import seriatim as sq
from seriatim.kernel.values.outcome import Reason
from tests.conformance import readings
from tests.conformance.readings import Reading
from tests.databases import box_with

_TYPE = sq.MessageType("item", properties={"key": "string", "number": "long", "place": "long"})
QUEUE = sq.Queue("numbers", policy=sq.BestEffort(), group="key", sequence="number")


def prepare(box: Any) -> None:
    box.define(_TYPE, QUEUE, sq.Queue("sets", policy=sq.UnitOfWork(size="number"), group="key", sequence="place"))


box = box_with(prepare)


def is_a_property(value: Any) -> bool:
    """Whether a value, if it is a number, can be written as a property."""
    if isinstance(value, int):
        return value.bit_length() < 1000
    if isinstance(value, Decimal):
        return not value.is_finite() or abs(value.adjusted()) < 100
    return (
        not isinstance(value, tuple | dict | pa.StructScalar)
        and type(value).__module__ != readings.__name__
        and len(str(value)) < 1000
    )


FROM_PYTHON = [
    one
    for one in (
        *readings.WHOLE,
        *readings.TEXTS,
        *readings.DOUBLES,
        *readings.FLOATS,
        *readings.DECIMALS,
        *readings.OBJECTS,
    )
    if is_a_property(one.value)
]
FROM_SQL = [one for one in (*readings.WHOLE, *readings.TEXTS, *readings.DECIMALS) if len(str(one.value)) < 1000]


def received(box: Any) -> dict[str, int]:
    found = {}
    with box.session() as tx:
        while delivery := tx.receive("numbers", limit=10):
            found |= {message.context["key"]: message.sequence for message in delivery}
    return found


def numbers(given: list[Reading]) -> dict[str, int]:
    return {f"g{place}": one.gives for place, one in enumerate(given) if not isinstance(one.gives, Reason)}


def test_numbers_that_a_program_publishes(box: Any) -> None:
    for place, one in enumerate(FROM_PYTHON):
        context = {"key": f"g{place}", "number": one.value, "to": "numbers"}
        try:
            with box.session() as tx:
                tx.publish(sq.Message(type="item", context=context))
        except sq.UsageError:
            assert isinstance(one.gives, Reason)
    assert received(box) == numbers(FROM_PYTHON)


def test_numbers_that_are_published_through_sql(box: Any) -> None:
    with psycopg.connect(box.dsn) as connection:
        for place, one in enumerate(FROM_SQL):
            value = (
                "null"
                if one.value is None
                else json.dumps(one.value)
                if not isinstance(one.value, Decimal)
                else str(one.value)
            )
            context = f'{{"key": "g{place}", "to": "numbers", "number": {value}}}'
            connection.execute(
                f"SELECT {box.schema}.publish(type => 'item', body => ''::bytea, context => %s::jsonb)", [context]
            )
    assert received(box) == numbers(FROM_SQL)
