"""`resequence` as users call it: what survives, what is added, what is refused, and how it goes on after a restart."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from seriatim import BestEffort, ColumnError, Fifo, Group, Queue, Standard, UnitOfWork, Unordered, UsageError
from seriatim.spark import held, resequence

EVERY_TYPE = """
    select id as n, 'g' as g, map('a', 1, 'b', 2) as a_map, named_struct('x', 1, 'y', array(1, 2)) as a_struct,
      array(named_struct('q', map('k', array(1)))) as nested, array(1, null, 3) as an_array,
      cast('12345678901234567890123456789012345678' as decimal(38, 0)) as a_decimal,
      parse_json('{"a": [1, 2.5, "x", null]}') as a_variant, array(parse_json('1')) as variants,
      TIME'12:34:56.123456' as a_time, timestamp'0001-01-01 00:00:00' as first_year,
      timestamp'9999-12-31 23:59:59.999999' as last_year, timestamp_ntz'0001-01-01 00:00:00' as without_zone,
      date'0001-01-01' as a_date, X'00ff' as bytes, cast(null as void) as nothing, cast(null as string) as no_text,
      interval '1' day as an_interval, true as yes, cast(1.5 as float) as a_float, 'é' as text
    from range(1, 6)
"""


def as_text(frame: DataFrame) -> list[Any]:
    """Every value as text that shows all of it, a row a message, in order of n."""
    plain = {"a_variant", "variants", "a_time", "an_interval", "nothing"}
    columns = [
        F.col(c).cast("string").alias(c) if c in plain else F.to_json(F.struct(c)).alias(c)
        for c in frame.columns
        if c not in {"ordinal", "late"}
    ]
    return frame.orderBy("n").select(columns).collect()


def stream_of(spark: SparkSession, folder: Path, schema: str) -> DataFrame:
    folder.mkdir()
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).json(str(folder))


def put(folder: Path, number: int, rows: list[dict[str, Any]]) -> None:
    """A file that is there at once, in its place by time."""
    hidden = folder / f".{number}"
    hidden.write_text("".join(json.dumps(row) + "\n" for row in rows))
    os.utime(hidden, (1_700_000_000 + number, 1_700_000_000 + number))
    hidden.rename(folder / f"{number:05d}.json")


def run_until(
    frame: DataFrame, checkpoint: Path, rows: int, read: Callable[[DataFrame], list[Any]] = DataFrame.collect
) -> list[Any]:
    """What a query decides until it has decided so many rows and their batch is committed; then it is stopped."""
    decided: list[Any] = []
    batches: list[int] = []

    def take(batch: DataFrame, number: int) -> None:
        found = read(batch)
        decided.extend(found)
        if found:
            batches.append(number)

    query = (
        frame.writeStream.foreachBatch(take)
        .option("checkpointLocation", str(checkpoint))
        .trigger(processingTime="0 seconds")
        .start()
    )
    try:
        for _ in range(1200):
            if len(decided) >= rows and (checkpoint / "commits" / str(batches[-1])).exists():
                return decided
            if query.exception() is not None:
                raise query.exception()
            query.awaitTermination(0.1)
        raise AssertionError(f"{len(decided)} rows of {rows} were decided")
    finally:
        query.stop()


def test_every_type_survives_in_a_frame(spark: SparkSession) -> None:
    frame = spark.sql(EVERY_TYPE)
    ordered = resequence(frame, group="g", sequence="n", policy=Standard())
    assert ordered.columns == [*frame.columns, "ordinal", "late"]
    assert [f.dataType for f in ordered.schema][:-2] == [f.dataType for f in frame.schema]
    assert as_text(ordered) == as_text(frame)


def test_messages_are_compared_by_types_that_json_lacks(spark: SparkSession) -> None:
    one = {
        "t": "TIME'12:00:00.000001'", "d": "interval '1' day", "nothing": "null", "s": "named_struct('t', TIME'12:00:00')",
        "a": "array(TIME'01:00:00', TIME'00:00:00')", "m": "map(TIME'01:00:00', interval '2' hour)",
    }  # fmt: skip
    other = {
        "t": "TIME'12:00:00.000002'", "d": "interval '1 00:00:00.000001' day to second", "s": "named_struct('t', TIME'12:00:01')",
        "a": "array(TIME'01:00:00', TIME'01:00:00')", "m": "map(TIME'01:00:00', interval '3' hour)",
    }  # fmt: skip
    # Each number comes three times: as it was, and with another value in one column.
    numbers = dict(enumerate(other, 1))
    told = [(n, at, one | ({} if at < 3 else {name: other[name]})) for n, name in numbers.items() for at in (1, 2, 3)]
    selects = [
        f"select {n} n, {at} at, {', '.join(f'{text} {name}' for name, text in row.items())}" for n, at, row in told
    ]
    frame = spark.sql(" union all ".join(selects)).withColumn("g", F.lit("g"))
    ordered = resequence(
        frame, group="g", sequence="n", policy=Standard(remember=9), compare=list(one), arrival="at", output="all"
    )
    found = {
        (row.n, row.at): (row.reason or "").partition(":")[0] for row in ordered.select("n", "at", "reason").collect()
    }
    again, differs = "its number was taken in before", "conflicts"
    assert found == {(n, at): ("", again, differs)[at - 1] for n in numbers for at in (1, 2, 3)}


def test_every_type_survives_being_held_in_a_query(spark: SparkSession, tmp_path: Path) -> None:
    # Number 1 comes last, so that 2 to 5 have gone through the state.
    source = stream_of(spark, tmp_path / "in", "id long")
    # Spark 4.3 writes no stream with TIME in it, whatever comes before.
    every = spark.sql(EVERY_TYPE).drop("a_time")
    frame = source.crossJoin(F.broadcast(every)).where("id = n").drop("id")
    put(tmp_path / "in", 1, [{"id": n} for n in (5, 3, 2, 4)])
    put(tmp_path / "in", 2, [{"id": 1}])
    ordered = resequence(frame, group="g", sequence="n", policy=Standard(), buckets=2)
    assert run_until(ordered, tmp_path / "checkpoint", 5, as_text) == as_text(every)


@pytest.mark.telling
def test_a_query_goes_on_where_it_was(spark: SparkSession, tmp_path: Path) -> None:
    source = stream_of(spark, tmp_path / "in", "g string, n long, v string")

    def ordered(policy: Standard) -> DataFrame:
        return resequence(source, group="g", sequence="n", policy=policy, output="all", buckets=2)

    put(tmp_path / "in", 1, [{"g": "a", "n": 1}, {"g": "a", "n": 3}, {"g": "b", "n": 2}, {"g": "b", "n": 0}])
    first = run_until(ordered(Standard(late="deliver")), tmp_path / "checkpoint", 2)
    assert sorted((row.g, row.n, row.disposition) for row in first) == [("a", 1, "released"), ("b", 0, "invalid")]
    # A parameter may change between the runs.
    put(tmp_path / "in", 2, [{"g": "a", "n": 2}, {"g": "b", "n": 1}, {"g": "a", "n": 1}])
    second = run_until(ordered(Standard(capacity=10)), tmp_path / "checkpoint", 5)
    released = [(row.g, row.n, row.ordinal) for row in second if row.disposition == "released"]
    assert sorted(released) == [("a", 2, 2), ("a", 3, 3), ("b", 1, 1), ("b", 2, 2)]
    assert [(row.g, row.n) for row in second if row.disposition == "duplicate"] == [("a", 1)]


def test_a_query_goes_on_with_all_that_its_rules_keep(spark: SparkSession, tmp_path: Path) -> None:
    """A place of a void, what is remembered, a count of a suspected restart, a group that isn't opened, a closed one."""
    source = stream_of(spark, tmp_path / "in", "to string, g string, n long, v string, nothing boolean, at long")
    numbered = Standard(remember=2, restart_after=2, on_restart="suspend")
    queues = [
        Queue("numbered", numbered, "g", "n", compare="v"),
        Queue("stays", Fifo(), Group("g", opens="v = 'check-in'", closes="v = 'check-out'")),
    ]
    ordered = resequence(source, queues=queues, destination="to", void="nothing", arrival="at", output="all", buckets=2)
    checkpoint = tmp_path / "checkpoint"

    def batch(number: int, *rows: tuple[str, int | None, str | None]) -> list[tuple[Any, ...]]:
        told = [
            {
                "to": "stays" if n is None else "numbered",
                "g": g,
                "n": n,
                "v": v,
                "nothing": v is None,
                "at": number * 100 + at,
            }
            for at, (g, n, v) in enumerate(rows)
        ]
        put(tmp_path / "in", number, told)
        decided = run_until(ordered, checkpoint, {1: 11, 2: 8}[number])
        told_of = [(row.g, row.n, row.v, row.disposition, row.ordinal, row.reason) for row in decided]
        return sorted(((*one, (why or "").partition(":")[0]) for *one, why in told_of), key=str)

    first = batch(
        1,
        *[("copied", 1, "x"), ("copied", 2, "y"), ("void", 1, "x"), ("void", 3, None), ("void", 4, "z")],
        *[("anew", 1, "a"), ("anew", 2, "b"), ("anew", 3, "c"), ("anew", 2, "other")],
        *[
            ("anna", None, "breakfast"),
            ("bob", None, "check-in"),
            ("bob", None, "check-out"),
            ("bob", None, "dinner"),
            ("carl", None, "nap"),
        ],
    )
    assert [one for one in first if one[3] != "released"] == [
        ("anew", 2, "other", "duplicate", None, "conflicts"),
        ("bob", None, "dinner", "late", None, "the group is closed"),
        ("void", 3, None, "void", None, "a void"),
    ]
    second = batch(
        2,
        *[("copied", 2, "y"), ("copied", 1, "other"), ("copied", 3, "z"), ("void", 2, "y"), ("anew", 1, "other")],
        *[("anew", 4, "d"), ("anna", None, "check-in"), ("bob", None, "breakfast")],
    )
    assert second == [
        ("anna", None, "breakfast", "released", 2, ""),
        ("anna", None, "check-in", "released", 1, ""),
        ("bob", None, "breakfast", "late", None, "the group is closed"),
        ("copied", 1, "other", "duplicate", None, "conflicts"),
        ("copied", 2, "y", "duplicate", None, "its number was taken in before"),
        ("copied", 3, "z", "released", 3, ""),
        ("void", 2, "y", "released", 2, ""),
        ("void", 4, "z", "released", 3, ""),
    ]
    waits = held(checkpoint, spark=spark).orderBy("sequence").select("group", "sequence", "reason").collect()
    assert [tuple(row) for row in waits] == [
        ("carl", None, "waits for a message that opens its group"),
        ("anew", 1, "its producer seems to have begun anew, and it waits for an operator"),
        ("anew", 4, "waits for its group to be resumed"),
    ]


DECLARED: dict[str, Any] = {"group": "g", "sequence": "n", "policy": Standard(), "buckets": 2}


@pytest.fixture(scope="module")
def begun(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[DataFrame, Path]:
    """A source with new messages, and the checkpoint of a query that has read those before."""
    folder = tmp_path_factory.mktemp("begun")
    source = stream_of(spark, folder / "in", "g string, h string, n long, t timestamp")
    row = {"g": "a", "h": "a", "t": "2026-01-01T00:00:00Z"}
    put(folder / "in", 1, [row | {"n": 1}])
    run_until(resequence(source, **DECLARED), folder / "checkpoint", 1)
    put(folder / "in", 2, [row | {"n": n} for n in range(2, 30)])
    return source, folder / "checkpoint"


@pytest.mark.parametrize(
    "other",
    [
        {"buckets": 4},
        {"opens": "h = 'check-in'", "arrival": "t"},
        {"policy": BestEffort()},
        {"group": "h"},
        {"clock": "event", "time": "t"},
    ],
    ids=lambda other: next(iter(other)),
)
def test_another_declaration_is_refused_before_anything_is_decided(
    begun: tuple[DataFrame, Path], tmp_path: Path, other: dict[str, Any]
) -> None:
    source, checkpoint = begun
    shutil.copytree(checkpoint, tmp_path / "checkpoint")
    with pytest.raises(Exception, match=r"the state was written with|timeMode|time mode"):
        run_until(resequence(source, **(DECLARED | other)), tmp_path / "checkpoint", 1)


def test_several_queues_in_one_operator(spark: SparkSession) -> None:
    rows = [
        ("strict", "a", 2, 1), ("strict", "a", 1, 2), ("strict", "a", 4, 3),
        ("loose", "a", 4, 1), ("loose", "a", 2, 2),
        ("arrival", "a", 9, 1), ("arrival", "a", 8, 2),
        ("any", None, 1, 1), (None, "a", 1, 1), ("nowhere", "a", 1, 1),
    ]  # fmt: skip
    frame = spark.createDataFrame(rows, "destination string, k string, n long, at int")
    queues = [
        Queue("strict", Standard(), group="k", sequence="n"),
        Queue("loose", BestEffort(), group="k", sequence="n"),
        Queue("arrival", Fifo(), group="k"),
        Queue("any", Unordered()),
    ]
    decided = resequence(frame, queues=queues, arrival="at", output="all").collect()
    fates = {(row.destination, row.n): (row.disposition, row.ordinal) for row in decided}
    assert fates == {
        ("strict", 1): ("released", 1), ("strict", 2): ("released", 2), ("strict", 4): ("held", None),
        ("loose", 2): ("released", 1), ("loose", 4): ("released", 2),
        ("arrival", 9): ("released", 1), ("arrival", 8): ("released", 2),
        ("any", 1): ("released", None), (None, 1): ("invalid", None), ("nowhere", 1): ("invalid", None),
    }  # fmt: skip
    assert {row.destination: row.reason for row in decided if row.disposition == "invalid"} == {
        None: "no queue is named null",
        "nowhere": "no queue is named 'nowhere'",
    }


def test_an_array_of_destinations_is_a_row_for_each(spark: SparkSession) -> None:
    frame = spark.sql("""
        select id as at, concat('g', id % 7) as k, cast((id * 37) % 200 as string) as n, id % 5 as m,
          case when id % 11 = 0 then null when id % 13 = 0 then cast(array() as array<string>)
            else filter(array('strict', 'loose', 'any', 'nowhere', null), (q, place) -> (id + place) % 3 > 0) end as to,
          if(id % 17 = 0, 'no message', null) as wrong, map('a', id) as a_map
        from range(200)
    """)
    queues = [
        Queue("strict", Standard(), group="k", sequence="n"),
        Queue("loose", BestEffort(), group="m", sequence="at"),
        Queue("any", Unordered()),
    ]

    def decided(frame: DataFrame, arrival: str | None) -> list[str]:
        ordered = resequence(
            frame, queues=queues, destination="to", arrival=arrival, output="all", invalid="wrong", buckets=3
        )
        assert ordered.columns[: len(frame.columns)] == frame.columns
        assert ordered.schema["to"].dataType.simpleString() == "string"
        return sorted(str(row) for row in ordered.collect())

    each = frame.withColumn("to", F.explode_outer("to"))
    assert len(decided(each, "at")) > 300
    for arrival in ("at", None):
        assert decided(frame, arrival) == decided(each, arrival)


def test_equal_numbers_without_an_arrival_are_settled_alike_in_any_order(spark: SparkSession) -> None:
    rows = [("a", 1, f"copy {n}") for n in range(20)]
    winners = set()
    for order in (rows, rows[::-1], rows[7:] + rows[:7]):
        frame = spark.createDataFrame(order, "g string, n long, v string").repartition(3)
        winners.add(resequence(frame, group="g", sequence="n", policy=Standard()).collect()[0].v)
    assert len(winners) == 1


def test_a_ticket_is_an_arrival_and_a_sequence(spark: SparkSession) -> None:
    frame = spark.sql("""
        select 'g' as g, named_struct('location', 'x', 'epoch', cast(e as int), 'number', cast(m as bigint)) as ticket
        from values (1, 2), (0, 9007199254740991), (1, 1), (0, 9007199254740990) as t(e, m)
    """)
    ordered = resequence(frame, group="g", sequence="ticket", policy=BestEffort())
    tickets = [(row.ticket.epoch, row.ticket.number) for row in ordered.collect()]
    assert tickets == [(0, 2**53 - 2), (0, 2**53 - 1), (1, 1), (1, 2)]
    by_arrival = resequence(frame, group="g", policy=Fifo())
    assert [row.ticket.number for row in by_arrival.collect()] == [2**53 - 2, 2**53 - 1, 1, 2]


def refusals() -> list[tuple[str, Callable[[DataFrame], DataFrame], type[Exception], str]]:
    return [
        ("no policy", lambda f: resequence(f, group="g", sequence="n"), UsageError, "the policy is missing"),
        (
            "a frame of pandas",
            lambda f: resequence(f.toPandas(), group="g", sequence="n", policy=Standard()),
            UsageError,
            r"not a DataFrame of pandas \(resequence\(spark.createDataFrame\(frame\), …\)\)",
        ),
        (
            "a nested time",
            lambda f: resequence(
                f.selectExpr("*", "struct(now() as t) as s"),
                group="g",
                sequence="n",
                policy=Standard(),
                clock="event",
                time="s.t",
            ),
            ColumnError,
            r"s\.t is a field in a column: df\.withColumn\(\"t\", F\.col\(\"s\.t\"\)\)",
        ),
        (
            "a name with a dot",
            lambda f: resequence(f.withColumn("a.b", F.lit(1)), group="g", sequence="n", policy=Standard()),
            ColumnError,
            r"withColumnRenamed\('a\.b', 'a_b'\)",
        ),
        ("no such group", lambda f: resequence(f, group="x", sequence="n", policy=Standard()), ColumnError, "'x'"),
        ("no such sequence", lambda f: resequence(f, group="g", sequence="x", policy=Standard()), ColumnError, "'x'"),
        ("a map as key", lambda f: resequence(f, group="m", sequence="n", policy=Standard()), ColumnError, "map"),
        ("a map as number", lambda f: resequence(f, group="g", sequence="m", policy=Standard()), ColumnError, "map"),
        (
            "numbers as time",
            lambda f: resequence(f, group="g", sequence="n", policy=BestEffort("time")),
            ColumnError,
            "'n'",
        ),
        ("fifo without arrival", lambda f: resequence(f, group="g", policy=Fifo()), UsageError, "arrival="),
        (
            "first without arrival",
            lambda f: resequence(f, group="g", sequence="n", policy=Standard(start="first")),
            UsageError,
            "arrival=",
        ),
        (
            "our column",
            lambda f: resequence(f.withColumn("ordinal", F.lit(1)), group="g", sequence="n", policy=Standard()),
            ColumnError,
            "'ordinal'",
        ),
        (
            "an interval of months",
            lambda f: resequence(f.selectExpr("*", "interval '2' year y"), group="g", sequence="n", policy=Standard()),
            ColumnError,
            "interval year",
        ),
        (
            "event clock without time",
            lambda f: resequence(f, group="g", sequence="n", policy=Standard(), clock="event"),
            UsageError,
            "time=",
        ),
        (
            "too many buckets",
            lambda f: resequence(f, group="g", sequence="n", policy=Standard(), buckets=5000),
            UsageError,
            "4096",
        ),
        (
            "a size that is a function",
            lambda f: resequence(f, group="g", sequence="n", policy=UnitOfWork(size=len)),
            ColumnError,
            "functions",
        ),
        (
            "two queues of one name",
            lambda f: resequence(f, queues=[Queue("q", Unordered()), Queue("q", Unordered())]),
            UsageError,
            "'q'",
        ),
    ]


def test_group_and_sequence_may_be_fields_in_columns(spark: SparkSession) -> None:
    frame = spark.sql("""
        select named_struct('id', g, 'n', n, 'more', named_struct('a.b', 7 - n)) as customer, n
        from values ('a', 3), ('b', 5), ('a', 1), ('a', 2) as t(g, n)
    """)
    ordered = resequence(frame, group="customer.id", sequence="customer.n", policy=Standard())
    assert ordered.columns == ["customer", "n", "ordinal", "late"]
    assert [(row.customer.id, row.n) for row in ordered.collect()] == [("a", 1), ("a", 2), ("a", 3)]
    down = resequence(frame, group="customer.id", sequence="customer.more.a.b", policy=BestEffort())
    assert [row.n for row in down.where("customer.id = 'a'").collect()] == [3, 2, 1]


@pytest.mark.parametrize(("build", "kind", "told"), [r[1:] for r in refusals()], ids=[r[0] for r in refusals()])
def test_what_cannot_be_is_refused_at_once(
    spark: SparkSession, build: Callable[[DataFrame], DataFrame], kind: type[Exception], told: str
) -> None:
    frame = spark.sql("select 'a' as g, 1 as n, map('a', 1) as m")
    with pytest.raises(kind, match=told):
        build(frame)
