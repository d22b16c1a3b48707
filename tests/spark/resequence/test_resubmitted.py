"""Messages that are put back, as rows of the operator: each value as it was written, or a refusal."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from itertools import product
from typing import Any

import pyarrow as pa
import pytest

from seriatim import Queue, Standard, UnitOfWork
from seriatim.spark.control.commands import RESUBMIT, Command, CommandResult
from seriatim.spark.frames.property_types import arrow_type, declared_type
from seriatim.spark.resequence.bucket import Plan
from seriatim.spark.resequence.resubmitted import as_plain, order_of, row_of
from seriatim.spark.state.manifest import fingerprint, identity

QUEUE = Queue("q", Standard(), group="key", sequence="number")
REPEAT = "once the pipeline runs by its present file, put the message back again"
VALUES: dict[str, list[Any]] = {
    "string": ["", "12", "12.50", "2026-01-01T00:00:00Z", "\u00e9"],
    "long": [0, 12, -(2**63), 2**63 - 1],
    "double": [12.0, 12.5, -0.0, 1e300, float("inf")],
    "boolean": [True, False],
    "timestamp": [
        datetime(1970, 1, 1, tzinfo=UTC),
        datetime(1, 1, 1, tzinfo=UTC),
        datetime(2026, 1, 1, 0, 0, 0, 1, UTC),
    ],
    "decimal(12,2)": [Decimal("12.50"), Decimal("-0.01"), Decimal("9999999999.99")],
    "decimal(38,0)": [Decimal(10**38 - 1)],
}


def row(property_type: str, arguments: dict[str, Any], queue: Queue = QUEUE) -> pa.Table | CommandResult:
    """The row, or the refusal, of a run whose only property has that type, after the command has been through the control log."""
    plan = Plan(
        queues=(queue,),
        destination=None,
        invalid=None,
        user=("value",),
        clock="processing",
        arrivals=(),
        output="all",
        reports=True,
        fingerprint=fingerprint([queue], 1, "processing"),
        buckets=1,
    )
    written = Command(RESUBMIT, "q", "c", "ada", "a test", {"sequence": 1, **arguments})
    schema = pa.schema([("value", arrow_type(property_type)), ("type", pa.string())])
    return row_of(Command.of(json.loads(json.dumps(written.entry()))), plan, schema, obeyed=(), place=0)


def refusal(found: pa.Table | CommandResult) -> tuple[str, str]:
    assert isinstance(found, CommandResult)
    assert found.result == "refused"
    return found.why, found.remedy


@pytest.mark.parametrize(("kind", "value"), [(kind, value) for kind, values in VALUES.items() for value in values])
def test_a_value_goes_back_as_it_was_and_null_as_null(kind: str, value: Any) -> None:
    found = row(kind, {"row": {"value": as_plain(value)}, "types": {"value": kind}})
    assert isinstance(found, pa.Table)
    (own,) = found.column("value").to_pylist()
    assert (type(own), own) == (type(value), value)
    assert str(own) == str(value)
    assert declared_type(found.column("value").type) == kind
    absent = row(kind, {"row": {}, "types": {}})
    assert isinstance(absent, pa.Table)
    assert absent.column("value").to_pylist() == [None]


@pytest.mark.parametrize(("kind", "other"), [pair for pair in product(VALUES, VALUES) if pair[0] != pair[1]])
def test_a_value_of_another_type_than_the_run_has_is_refused(kind: str, other: str) -> None:
    for value in VALUES[kind]:
        found = row(other, {"row": {"value": as_plain(value)}, "types": {"value": kind}})
        assert refusal(found) == (f"property value is a {kind}, and in the run a {other}", REPEAT)


def test_a_property_that_the_run_has_not_is_refused() -> None:
    found = row("long", {"row": {"value": 1, "more": 2}, "types": {"value": "long", "more": "long"}})
    assert refusal(found) == ("property more is a long, and the run has none of that name", REPEAT)


@pytest.mark.parametrize(
    ("kind", "arguments", "why"),
    [
        ("long", {"row": {"value": "12.50"}}, "value: '12.50' is no long"),
        ("long", {"row": {"value": 2**63}}, f"value: {2**63} is no long"),
        ("long", {"row": {"value": True}}, "value: True is no long"),
        ("boolean", {"row": {"value": 1}}, "value: 1 is no boolean"),
        ("timestamp", {"row": {"value": "x"}}, "value: 'x' is no timestamp"),
        ("timestamp", {"row": {"value": 2**70}}, f"value: {2**70} is no timestamp"),
        ("decimal(12,2)", {"row": {"value": "1.234"}}, "value: '1.234' is no decimal(12,2)"),
        ("decimal(12,2)", {"row": {"value": "x"}}, "value: 'x' is no decimal(12,2)"),
        ("string", {"row": {"type": 5}}, "type: 5 is no string"),
        ("string", {"row": {"type": "\ud800"}}, "type: '\\ud800' is no string"),
        ("long", {"row": {}, "sequence": "x"}, "sequence: 'x' is no long"),
        ("long", {"row": {}, "position": "x"}, "position: 'x' is no binary"),
        ("long", {"row": 5}, "a value of the command is wrong: 'int' object has no attribute 'get'"),
        ("long", {}, "a value of the command is wrong: 'row'"),
    ],
)
def test_a_value_that_a_column_can_t_have_is_refused(kind: str, arguments: dict[str, Any], why: str) -> None:
    assert refusal(row(kind, arguments))[0] == why


def test_a_message_of_another_order_than_the_run_has_is_refused() -> None:
    def order(queue: Queue) -> dict[str, Any]:
        return order_of(queue, identity([queue], 7, "")["queues"]["q"])

    assert isinstance(row("long", {"row": {}, "order": order(QUEUE)}), pa.Table)
    for other in (
        Queue("q", Standard(), group="key", sequence="another"),
        Queue("q", Standard(), group="another", sequence="number"),
        Queue("q", UnitOfWork(size=2), group="key", sequence="number"),
    ):
        found = row("long", {"row": {}, "order": order(other)})
        assert refusal(found) == ("the run orders destination 'q' otherwise than the pipeline file", REPEAT)
