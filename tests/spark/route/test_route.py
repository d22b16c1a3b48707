"""`route`: a row for every destination of a message, however the destinations are found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from seriatim import Subscription
from seriatim.errors import ColumnError, FilterError, UsageError
from seriatim.kernel.filters.filter import type_from
from seriatim.kernel.filters.filter_eval import column, evaluate
from seriatim.pipeline.filters.syntax import parsed
from seriatim.spark.route.stage import route

TYPES = {
    "id": type_from("long"),
    "type": type_from("string"),
    "customer": type_from("string"),
    "amount": type_from("decimal(12,2)"),
    "score": type_from("double"),
    "version": type_from("long"),
    "at": type_from("timestamp"),
}


def orders(n: int) -> dict[str, list[Any]]:
    """Messages with every value of a few, and nulls."""
    return {
        "id": list(range(n)),
        "type": [None if i % 11 == 0 else f"t{i % 7}" for i in range(n)],
        "customer": [None if i % 13 == 0 else f"c{i % 101}" for i in range(n)],
        "amount": [None if i % 17 == 0 else i * 25 for i in range(n)],
        "score": [[-0.0, 0.0, float("nan"), 1.5, None][i % 5] for i in range(n)],
        "version": [None if i % 19 == 0 else i % 23 for i in range(n)],
        "at": [None if i % 29 == 0 else 1_700_000_000_000_000 + i % 31 for i in range(n)],
    }


def frame(spark: SparkSession, columns: dict[str, list[Any]]) -> DataFrame:
    whole = {**columns, "amount": [None if v is None else f"{v // 100}.{v % 100:02}" for v in columns["amount"]]}
    kinds = {"string": "string", "double": "double"}
    schema = ", ".join(
        f"{name} {kinds.get(str(TYPES[name]), 'string' if name == 'amount' else 'long')}" for name in whole
    )
    df = spark.createDataFrame(list(zip(*whole.values(), strict=True)), schema)
    return df.withColumn("amount", F.col("amount").cast("decimal(12,2)")).withColumn("at", F.timestamp_micros("at"))


def expected(columns: dict[str, list[Any]], subscriptions: list[Subscription]) -> list[tuple[int, str | None]]:
    """By the kernel, one filter after another."""
    n = len(columns["id"])
    given = {name: column(values, TYPES[name]) for name, values in columns.items()}
    found: list[set[str]] = [set() for _ in range(n)]
    for one in subscriptions:
        true, _ = evaluate(parsed(one.where, TYPES), given, n)
        for row in true.nonzero()[0]:
            found[row].add(one.to)
    return sorted(((row, to) for row in range(n) for to in found[row] or [None]), key=str)


def routed(df: DataFrame, subscriptions: list[Subscription]) -> list[tuple[int, str | None]]:
    result = route(df, subscriptions)
    assert result.columns == [*df.columns, "destination"]
    return sorted(((row.id, row.destination) for row in result.select("id", "destination").collect()), key=str)


def subscribed(*wheres: str) -> list[Subscription]:
    return [Subscription(f"s{n}", where, f"d{n}") for n, where in enumerate(wheres)]


def test_a_row_for_each_destination_and_one_where_there_is_none(spark: SparkSession) -> None:
    df = spark.createDataFrame(
        [(1, "order", 50), (2, "order", 500), (3, "note", 0), (4, None, 0)], "id long, type string, n int"
    )
    subscriptions = [
        Subscription("orders", "type = 'order'", "archive"),
        Subscription("large ones", "type = 'order' AND n >= 100", "vip"),
        Subscription("large ones too", "n >= 100", "archive"),
    ]
    assert routed(df, subscriptions) == [(1, "archive"), (2, "archive"), (2, "vip"), (3, None), (4, None)]
    assert routed(df, []) == [(1, None), (2, None), (3, None), (4, None)]


def test_all_columns_survive_with_their_metadata(spark: SparkSession) -> None:
    df = spark.sql(
        "select 1L id, named_struct('location', 'crm', 'epoch', 2L, 'number', 7L) ticket, array(1) list, X'00ff' body"
    )
    df = df.withMetadata("ticket", {"seriatim.last_number": 9}).withColumn("odd `name`", F.lit(1))
    for filler in (
        [],
        subscribed(*[f"id = {n}" for n in range(2, 40)]),
        subscribed(*[f"id > {n}" for n in range(2, 140)]),
    ):
        found = route(df, [Subscription("one", 'ticket = 7 AND epoch < 3 AND "odd `name`" = 1', "one"), *filler])
        assert found.schema["ticket"].metadata == {"seriatim.last_number": 9}
        assert found.drop("destination").collect() == df.collect()
        assert [row.destination for row in found.collect()] == ["one"]


VARIETY = [
    "type = 't1'",
    "type IN ('t1', 't2', 'none', NULL)",
    "type = 't3' AND amount >= 12.5",
    "amount > 1 AND type = 't3'",
    "type = 't3' AND amount >= 100.25",
    "type = 't3' OR customer = 'c5'",
    "type = 't3' AND version < 5 OR customer = 'c5' AND amount < 3",
    "(type = 't1' OR type = 't4') AND version = 3",
    "type = 't1' OR amount > 70",
    "amount = 12.5",
    "amount IN (12.50, 1, 0.125)",
    "version = 4",
    "version IN (4, 4.0, 4.5, 5e0)",
    "score = 0",
    "score = 1.5 AND type = 't2'",
    "at = TIMESTAMP '2023-11-14 22:13:20.000005'",
    "NOT type = 't1'",
    "type <> 't1' AND customer = 'c7'",
    "customer LIKE 'c1%'",
    "customer = 'c9' AND type LIKE 't_'",
    f"customer = 'c9' AND NOT type LIKE '%_{'t' * 40}%'",
    "type IS NULL",
    "TRUE",
    "NULL",
    "FALSE",
    "type = 't2' AND customer IN ('c1', 'c2', 'c3') AND version IN (1, 2, 3, 4, 5, 6, 7, 8, 9, 10)",
    "customer = 'c1' AND customer = 'c2'",
    "version & 1 <> 0 AND type = 't5'",
    "version = 3 AND amount * version / 2 > score",
]


def test_looked_up_and_tried_are_the_same(spark: SparkSession) -> None:
    columns = orders(400)
    df = frame(spark, columns).cache()
    few = subscribed(*VARIETY)
    for subscriptions in (
        few,
        # Looked up by value, also where two lead to one destination.
        [
            *subscribed(*VARIETY, *[f"customer = 'c{n}' AND amount >= {n}.{n % 10}" for n in range(60)]),
            Subscription("again", "type = 't1'", "d0"),
        ],
        # More than fit into a plan, with no equality between them.
        subscribed(*VARIETY, *[f"amount BETWEEN {n} AND {n + 1}.5 AND type IS NOT NULL" for n in range(200)]),
        # More shapes, and more behind one value, than are looked up.
        subscribed(*VARIETY, *[f"type = 't1' AND {' + '.join(['version'] * (n % 70 + 1))} > {n}" for n in range(300)]),
    ):
        assert routed(df, subscriptions) == expected(columns, subscriptions)
    df.unpersist()


def test_ten_thousand_subscriptions_find_what_the_kernel_finds_one_by_one(spark: SparkSession) -> None:
    columns = orders(300)
    wheres = [f"customer = 'c{n % 150}' AND type = 't{n % 8}' AND amount >= {n / 4}" for n in range(10_000)]
    subscriptions = [Subscription(f"s{n}", where, f"d{n % 5_000}") for n, where in enumerate(wheres)]
    assert routed(frame(spark, columns), subscriptions) == expected(columns, subscriptions)


@pytest.mark.telling
def test_a_stream_is_routed_without_state(spark: SparkSession, tmp_path: Path) -> None:
    columns = orders(50)
    df = frame(spark, columns)
    df.write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema(df.schema).parquet(str(tmp_path / "in"))
    wheres = [*VARIETY, *[f"customer = 'c{n}'" for n in range(60)], *[f"amount > {n}" for n in range(150)]]
    subscriptions = subscribed(*wheres)
    query = (
        route(stream, subscriptions)
        .writeStream.format("memory")
        .queryName("routed_stream")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    rows = spark.table("routed_stream").select("id", "destination").collect()
    assert sorted(((row.id, row.destination) for row in rows), key=str) == expected(columns, subscriptions)
    assert query.lastProgress["stateOperators"] == []
    spark.catalog.dropTempView("routed_stream")


@pytest.mark.parametrize(
    ("subscriptions", "kind", "says"),
    [
        (
            [Subscription("a", "TRUE", "x"), Subscription("a", "FALSE", "y")],
            UsageError,
            "two subscriptions are named 'a'",
        ),
        (["TRUE"], UsageError, "'TRUE' is not a subscription"),
        (
            subscribed("amuont > 3"),
            FilterError,
            "subscription 's0':1:1: there is no property 'amuont' (did you mean 'amount'?)",
        ),
        (
            subscribed("TRUE", "amount = 'x'"),
            FilterError,
            "subscription 's1':1:1: 'amount' (long) can't be compared with the string 'x'",
        ),
        (
            subscribed("TRUE AND list = 1"),
            ColumnError,
            "subscription 's0':1:10: a filter can't look at 'list', which is array<int>",
        ),
    ],
)
def test_what_is_wrong_is_told(spark: SparkSession, subscriptions: Any, kind: type[Exception], says: str) -> None:
    df = spark.sql("select 1L amount, array(1) list")
    with pytest.raises(kind) as told:
        route(df, subscriptions)
    assert says in str(told.value)


def test_a_frame_that_has_a_destination_is_refused(spark: SparkSession) -> None:
    for name in ("destination", "Destination"):
        with pytest.raises(ColumnError, match="seriatim adds a column with this name"):
            route(spark.range(1).withColumn(name, F.lit("x")), [])


@pytest.mark.parametrize("wrong", [{"name": ""}, {"to": ""}, {"to": "x" * 129}, {"where": " "}, {"where": None}])
def test_a_subscription_has_a_name_a_filter_and_a_destination(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        Subscription(**{"name": "a", "where": "TRUE", "to": "b", **wrong})
