"""Filters in Spark mean what they mean in the kernel, to the last bit."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from seriatim.errors import ColumnError
from seriatim.kernel.filters.filter import Expression, Type, ValueKind
from seriatim.kernel.filters.filter_eval import column, evaluate
from seriatim.pipeline.filters.syntax import parsed
from seriatim.spark.route.filter_expressions import Properties, condition
from tests.filter_cases import CASES, TYPES, as_kept
from tests.filters import filters, messages, read, schemas
from tests.soak import sized

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def frame(spark: SparkSession, types: dict[str, Type], columns: dict[str, list[Any]]) -> DataFrame:
    arrays = [pa.array([_in_arrow(v, kind) for v in columns[name]], _arrow(kind)) for name, kind in types.items()]
    return spark.createDataFrame(pa.Table.from_arrays(arrays, names=list(types)))


def _arrow(kind: Type) -> pa.DataType:
    plain = {"string": pa.string(), "long": pa.int64(), "double": pa.float64(), "boolean": pa.bool_()}
    if kind.kind is ValueKind.DECIMAL:
        return pa.decimal128(kind.precision, kind.scale)
    return plain.get(kind.kind) or pa.timestamp("us", "UTC")


def _in_arrow(value: Any, kind: Type) -> Any:
    if value is not None and kind.kind is ValueKind.DECIMAL:
        sign, digits, _ = Decimal(value).as_tuple()
        return Decimal((sign, digits, -kind.scale))
    if value is not None and kind.kind is ValueKind.TIMESTAMP:
        return _EPOCH + timedelta(microseconds=value)
    return value


def by_spark(df: DataFrame, expressions: list[Expression]) -> list[list[bool | None]]:
    """Every filter for every row, in one job."""
    columns = Properties.of(df).columns
    shown = [condition(expression, columns).alias(f"f{n}") for n, expression in enumerate(expressions)]
    return [found.to_pylist() for found in df.select(*shown).toArrow().columns]


def by_kernel(
    types: dict[str, Type], columns: dict[str, list[Any]], expressions: list[Expression]
) -> list[list[bool | None]]:
    given_columns = {name: column(values, types[name]) for name, values in columns.items()}
    n = len(next(iter(columns.values())))
    pairs = [evaluate(expression, given_columns, n) for expression in expressions]
    return [[bool(t) if k else None for t, k in zip(true, known, strict=True)] for true, known in pairs]


def test_every_case_is_the_same_in_spark(spark: SparkSession) -> None:
    rows = [{name: as_kept(name, properties.get(name)) for name in TYPES} for _, properties, _ in CASES]
    columns = {name: [row[name] for row in rows] for name in TYPES}
    expressions = [parsed(text, TYPES) for text, _, _ in CASES]
    found = by_spark(frame(spark, TYPES, columns), expressions)
    assert [(CASES[n], found[n][n]) for n in range(len(CASES)) if found[n][n] is not CASES[n][2]] == []
    # And every filter for the messages of all the others.
    assert found == by_kernel(TYPES, columns, expressions)


# Not shrunk: every attempt would be a Spark job.
@pytest.mark.soak
@settings(max_examples=sized(60, 4, 1), deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
@given(data=st.data())
def test_spark_and_the_kernel_agree(spark: SparkSession, data: st.DataObject) -> None:
    types = data.draw(schemas())
    columns = data.draw(messages(types))
    texts = ["TRUE", *data.draw(st.lists(filters(types), min_size=30, max_size=40))]
    wanted = read(texts, types)
    expressions = [expression for _, expression in wanted]
    df = frame(spark, types, columns)
    assert Properties.of(df).types == types
    said = zip(wanted, by_spark(df, expressions), by_kernel(types, columns, expressions), strict=True)
    for (text, _), in_spark, in_kernel in said:
        differing = [
            ({name: columns[name][row] for name in types if name in text}, one, other)
            for row, (one, other) in enumerate(zip(in_spark, in_kernel, strict=True))
            if one is not other
        ]
        assert differing == [], (text, {name: str(kind) for name, kind in types.items() if name in text})


def truth(df: DataFrame, text: str) -> list[bool | None]:
    properties = Properties.of(df)
    return by_spark(df, [properties.parsed(text, "")])[0]


def test_the_types_of_columns_are_types_of_properties(spark: SparkSession) -> None:
    df = spark.sql(
        "select 1Y tiny, 2S small, 3 int, 4L long, cast(1.5 as float) float, 2.5D double, 1.25 price, true yes, "
        "'x' text, cast('y' as varchar(3)) short, date'2026-01-31' day, timestamp'2026-01-31 12:00:00' moment, "
        "timestamp_ntz'2026-01-31 12:00:00' local, named_struct('location', 'l', 'epoch', 2L, 'number', 7L) ticket"
    )
    kinds = {name: str(kind) for name, kind in Properties.of(df).types.items()}
    assert kinds == {
        **dict.fromkeys(("tiny", "small", "int", "long", "ticket", "epoch"), "long"),
        **dict.fromkeys(("float", "double"), "double"),
        **dict.fromkeys(("text", "short"), "string"),
        **dict.fromkeys(("day", "moment", "local"), "timestamp"),
        "price": "decimal(3,2)",
        "yes": "boolean",
    }
    for text in (
        "tiny = 1 AND small = 2 AND int = 3 AND long = 4 AND ticket = 7 AND epoch = 2",
        "float = 1.5 AND double = 2.5 AND price = 1.25 AND yes AND text = 'x' AND short = 'y'",
        "day = TIMESTAMP '2026-01-31' AND moment = local AND local = TIMESTAMP '2026-01-31 12:00:00'",
    ):
        assert truth(df, text) == [True], text


def test_the_time_zone_of_the_session_does_not_matter(spark: SparkSession) -> None:
    other = spark.newSession()
    other.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    df = other.sql("select timestamp'2026-01-31 12:00:00+00:00' moment, timestamp_ntz'2026-01-31 12:00:00' local")
    assert truth(df, "moment = TIMESTAMP '2026-01-31 12:00:00' AND local = TIMESTAMP '2026-01-31 12:00:00'") == [True]


def test_collations_do_not_matter_and_what_is_no_text_is_unknown(spark: SparkSession) -> None:
    df = spark.sql("select collate(t, 'UTF8_LCASE') t from values ('A'), ('a') as v(t)")
    assert truth(df, "t = 'a'") == [False, True]
    assert truth(df, "t IN ('a', 'b') AND t LIKE 'a%'") == [False, True]
    broken = spark.sql("select cast(X'61ff' as string) t")
    assert truth(broken, "t IS NULL") == [True]
    assert truth(broken, "t LIKE 'a%'") == [None]


def test_what_can_be_folded_away_cannot_fail(spark: SparkSession) -> None:
    df = spark.sql("select 1L l, 0D d, cast(1 as decimal(38,0)) z")
    for text in (
        "l / 0 > 1 OR l = 1",
        "l = 1 OR 9223372036854775807 + 1 > 0",
        "1 % 0 = 1 OR l = 1",
        "99999999999999999999999999999999999999 + z > 0 OR l = 1",
        "-(-9223372036854775807 - 1) = 1 OR l = 1",
        "d / d = 1 OR l = 1",
    ):
        assert truth(df, text) == [True], text


def test_a_filter_is_no_sql_of_spark(spark: SparkSession) -> None:
    df = spark.sql('select "\') OR current_user() IS NOT NULL --" as t, 1 as `a``b`')
    assert truth(df, "t = ''') OR current_user() IS NOT NULL --'") == [True]
    assert truth(df, "\"a`b\" = 1 AND t <> ''''") == [True]


def test_a_long_filter_is_planned(spark: SparkSession) -> None:
    df = spark.range(3).withColumnRenamed("id", "l")
    assert truth(df, " OR ".join(f"l + {n} = 1 AND l < {n + 5}" for n in range(150))) == [True, True, False]
    assert truth(df, "l + " * 70 + "l = 71") == [False, True, False]
    assert truth(df, f"l IN ({', '.join(map(str, range(1, 5000)))})") == [False, True, True]


@pytest.mark.parametrize("kind", ["array(1)", "X'00'", "map(1, 2)", "named_struct('a', 1)", "interval '1' day", "null"])
def test_other_columns_are_not_for_filters(spark: SparkSession, kind: str) -> None:
    df = spark.sql(f"select 1 l, {kind} odd")
    assert truth(df, "l = 1") == [True]
    with pytest.raises(ColumnError, match="a filter can't look at 'odd', which is"):
        truth(df, "odd IS NULL")
