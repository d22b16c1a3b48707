"""What the format of a box refuses before anything is written."""

from __future__ import annotations

import pytest
from pyspark.sql import types as T

import seriatim as sq
from seriatim.spark.box.format import BoxOptions
from seriatim.spark.box.sink import check_columns

TALKING = {"service": "Inventory", "fromService": "Orders", "dialogBy": "customer"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"service": "S"}, "no fromService for the dialogs"),
        ({"service": "S", "fromService": "F"}, "no dialogBy for the dialogs"),
        ({"contract": "C"}, "no service for the dialogs"),
        (TALKING | {"queue": "q"}, "both into a queue and into dialogs"),
    ],
)
def test_options_that_do_not_go_together(given, said):
    with pytest.raises(sq.UsageError, match=said):
        BoxOptions.of(given).check_dialogs()


def test_options_that_do():
    BoxOptions.of({"queue": "q"}).check_dialogs()
    BoxOptions.of({}).check_dialogs()
    options = BoxOptions.of({name.lower(): value for name, value in TALKING.items()})
    options.check_dialogs()
    assert (options.service, options.from_service, options.dialog_by) == ("Inventory", "Orders", "customer")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"writer": "me"}, "there is no batch"),
        ({"batch": "1"}, "there is no writer"),
        ({"writer": "", "batch": "1"}, "writer is empty"),
    ],
)
def test_a_writer_and_his_batch_go_together(given, said):
    with pytest.raises(sq.UsageError, match=said):
        BoxOptions.of(given)
    assert BoxOptions.of({"writer": "me", "batch": "1"}).batch == 1


@pytest.mark.parametrize("kind", [T.StringType(), T.LongType(), T.ByteType()])
def test_keys_that_can_be(kind):
    check_columns(T.StructType().add("customer", kind).add("body", T.StringType()), None, None, "customer")


@pytest.mark.parametrize(
    "name", ["Body", "TYPE", "Message_Id", "Received_at", "Parts", "To", "Correlation_ID", "PARENT_ID", "Part"]
)
def test_columns_that_differ_from_ours_by_capitals_only(name):
    schema = T.StructType().add("customer", T.StringType()).add(name, T.StringType())
    with pytest.raises(sq.ColumnError, match=f"column {name!r}: it differs from {name.lower()!r} by capitals only"):
        check_columns(schema, None, None)
    check_columns(schema, None, None, name)


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (T.StructType().add("body", T.StringType()), "no such column for the key of dialogs"),
        (T.StructType().add("customer", T.DoubleType()), "can't be double"),
        (
            T.StructType()
            .add("customer", T.StringType())
            .add("parts", T.ArrayType(T.StructType().add("name", "string").add("body", "binary"))),
            "messages of dialogs have no parts",
        ),
    ],
)
def test_columns_that_can_not_be(schema, said):
    with pytest.raises(sq.ColumnError, match=said):
        check_columns(schema, None, None, "customer")
