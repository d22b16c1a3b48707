"""`stamp` as users call it: gap-free tickets in order of arrival, the same whatever is run again."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from seriatim import CheckpointMismatch, ColumnError, SeriatimError, Standard, UsageError
from seriatim.kernel.groups.sequence import LAST_NUMBER
from seriatim.pipeline.declared.pipeline import Receive, Source, Stamp
from seriatim.pipeline.declared.queue import Queue
from seriatim.runtime.pipelines.failure_cause import cause_of
from seriatim.spark import resequence, stamp
from seriatim.spark.resequence.ordering import Ordering
from seriatim.spark.resequence.stage import put_in_order
from seriatim.spark.stamp.operator import LOCATION, STAMPED_SCHEMA, StampPlan
from seriatim.spark.stamp.stage import TICKET, stamp_locations, with_tickets
from seriatim.spark.state.packets import PACKET_SCHEMA, pack_by, to_bytes
from seriatim.spark.state.state_layout import StateLayout
from tests.spark.resequence.test_resequence import EVERY_TYPE, as_text, put, run_until, stream_of

Ticket = tuple[str | None, int | None, int | None]


def ticket(row: Any) -> Ticket:
    return (row.ticket.location, row.ticket.epoch, row.ticket.number)


def numbered(location: str, count: int, last_number: int) -> list[Ticket]:
    """The first tickets of a location, counted one at a time."""
    found: list[Ticket] = []
    epoch, number = 0, 0
    for _ in range(count):
        epoch, number = (epoch, number + 1) if number < last_number else (epoch + 1, 1)
        found.append((location, epoch, number))
    return found


def raised(act: Callable[[], object]) -> SeriatimError:
    """What a person is told of a failed query."""
    with pytest.raises(PySparkException) as caught:
        act()
    return cause_of(caught.value)


def test_tickets_go_by_the_order_within_each_location(spark: SparkSession) -> None:
    rows = [(f"at {n % 5}", n, f"message {n}") for n in range(500)]
    random.Random(1).shuffle(rows)
    frame = spark.createDataFrame(rows, "place string, n long, v string").repartition(4)
    found = stamp(frame, F.col("place"), order_by=["n"], last_number=7).collect()
    for place in range(5):
        mine = sorted((row for row in found if row.place == f"at {place}"), key=lambda row: row.n)
        assert [ticket(row) for row in mine] == numbered(f"at {place}", 100, 7)
        assert [row.v for row in mine] == [f"message {n}" for n in range(place, 500, 5)]


def test_text_is_the_name_of_one_location(spark: SparkSession) -> None:
    stamped = stamp(spark.range(3).repartition(3), "crm", "id")
    assert {row.id: ticket(row) for row in stamped.collect()} == {n: ("crm", 0, n + 1) for n in range(3)}
    assert stamped.schema["ticket"].metadata == {"seriatim.last_number": LAST_NUMBER}
    assert stamped.dtypes[-1] == ("ticket", "struct<location:string,epoch:bigint,number:bigint>")


def test_every_type_survives(spark: SparkSession) -> None:
    frame = spark.sql(EVERY_TYPE)
    stamped = stamp(frame, "crm", "n")
    assert as_text(stamped.drop("ticket")) == as_text(frame)


ASCENDING: list[tuple[str, list[Any]]] = [
    ("tinyint", [-128, 0, 127]),
    ("bigint", [None, -(2**63), -1, 0, 2**63 - 1]),
    ("decimal(38,2)", [None, Decimal("-1.50"), Decimal(0), Decimal("0.01"), Decimal("9" * 36)]),
    ("string", [None, "", "Z", "a", "aa", "é", "\U0001f600"]),
    ("binary", [None, b"", b"\0", b"a", b"\xff\xfe"]),
    ("date", [None, date(1, 1, 1), date(1970, 1, 1), date(9999, 12, 31)]),
    ("timestamp", [datetime(2026, 1, 1, tzinfo=UTC) + timedelta(microseconds=n) for n in range(3)]),
    ("timestamp_ntz", [None, datetime(1, 1, 1), datetime(2026, 1, 1), datetime(9999, 12, 31)]),  # noqa: DTZ001
]


def test_what_an_order_goes_by(spark: SparkSession) -> None:
    # A location for each type, whose messages differ in the column of that type only.
    columns = {kind: f"by_{number}" for number, (kind, _) in enumerate(ASCENDING)}
    rows = [
        (kind, place, *(value if kind == other else None for other, _ in ASCENDING))
        for kind, values in ASCENDING
        for place, value in enumerate(values, 1)
    ][::-1]
    frame = spark.createDataFrame(
        rows, ", ".join(["kind string, place int", *(f"{name} {kind}" for kind, name in columns.items())])
    )
    found = stamp(frame, F.col("kind"), list(columns.values())).select("kind", "place", "ticket.number").collect()
    assert sorted((row.kind, row.number, row.place) for row in found) == sorted(
        (kind, place, place) for kind, values in ASCENDING for place in range(1, len(values) + 1)
    )


def test_the_first_column_of_an_order_counts_first(spark: SparkSession) -> None:
    rows = [("b", None, 1), (None, 9, 2), ("a", 2, 3), ("a", None, 4), ("a", 1, 5)]
    found = stamp(spark.createDataFrame(rows, "x string, y int, n int"), "crm", ["x", "y"]).collect()
    assert [row.n for row in sorted(found, key=lambda row: row.ticket.number)] == [2, 4, 5, 3, 1]


def test_a_message_without_a_location_has_a_ticket_of_nulls(spark: SparkSession) -> None:
    rows = [(None, 1), ("a", 1), (None, 1), ("", 1), ("a", 2)]
    found = stamp(spark.createDataFrame(rows, "place string, n int"), F.col("place"), "n").collect()
    assert sorted((row.place or "", row.n, *ticket(row)) for row in found if row.place is not None) == [
        ("", 1, "", 0, 1),
        ("a", 1, "a", 0, 1),
        ("a", 2, "a", 0, 2),
    ]
    assert [ticket(row) for row in found if row.place is None] == [(None, None, None)] * 2
    nowhere = stamp(spark.range(3), F.lit(None).cast("string"), "id")
    assert [ticket(row) for row in nowhere.collect()] == [(None, None, None)] * 3


def test_5000_locations_in_one_batch(spark: SparkSession) -> None:
    frame = spark.range(15_000).select((F.col("id") % 5000).alias("place"), (-F.col("id")).alias("n"))
    stamped = stamp(frame, F.col("place"), "n").select("place", "n", "ticket.*").toArrow().to_pylist()
    assert len(stamped) == 15_000
    for row in stamped:
        assert row["location"] == str(row["place"])
        assert row["number"] == 3 + row["n"] // 5000 + (row["n"] % 5000 > 0)


@pytest.mark.parametrize(
    ("schema", "rows", "told"),
    [
        (
            "message_id string, n int",
            [("m1", 3), ("m2", 4), ("m3", 3)],
            ["message 'm1'", "message 'm3'", "both have n 3"],
        ),
        ("v string, n int", [("x\ny", None), ("z", None)], ["with v 'x\\ny'", "with v 'z'", "both have n null"]),
        ("n string", [("k" * 200,), ("k" * 200,)], ["a message and a message both have n 'kkkk", "…"]),
        ("n string, w binary", [("a", b"\xff"), ("a", b"\x00")], ["with w b'\\xff'", "n 'a'"]),
    ],
)
def test_an_order_that_is_not_total_names_both(
    spark: SparkSession, schema: str, rows: list[Any], told: list[str]
) -> None:
    stamped = stamp(spark.createDataFrame(rows, schema), "crm", ["n"])
    error = raised(stamped.collect)
    assert type(error) is ColumnError
    for part in ["location 'crm'", "the order of arrival is not total", "order_by needs", *told]:
        assert part in str(error)


@pytest.mark.parametrize(
    ("options", "kind", "told"),
    [
        ({"order_by": ["nix"]}, ColumnError, "column 'nix': there is no such column for the order of arrival"),
        ({"order_by": []}, UsageError, "order_by names no column"),
        ({"order_by": ["n", "m"]}, ColumnError, "column 'm': a map<string,int> has no order"),
        ({"order_by": "d"}, ColumnError, "column 'd': a double has no order"),
        ({"location": "g"}, UsageError, "'g' is a column of the frame, but text is the name of one location"),
        ({"location": len}, UsageError, "a location must be text or a column"),
        ({"location": 5}, UsageError, "a location must be text or a column, not 5"),
        ({"last_number": 0}, UsageError, "last_number must be a whole number from 1 to"),
        ({"last_number": 2**53}, UsageError, "last_number must be"),
        ({"last_number": True}, UsageError, "last_number must be"),
        ({"buckets": 0}, UsageError, "buckets must be a whole number"),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused_at_once(
    spark: SparkSession, options: Mapping[str, Any], kind: type[UsageError], told: str
) -> None:
    frame = spark.sql("select 'a' as g, 1L as n, 1.5D as d, map('a', 1) as m")
    with pytest.raises(kind) as caught:
        stamp(frame, **({"location": "crm", "order_by": "n"} | options))
    assert told in str(caught.value)


def test_a_frame_is_stamped_once(spark: SparkSession) -> None:
    frame = stamp(spark.range(3), "crm", "id")
    with pytest.raises(ColumnError, match="'ticket'"):
        stamp(frame, "erp", "id")
    with pytest.raises(ColumnError, match="a location can't be a struct"):
        stamp(frame.withColumnRenamed("ticket", "t"), F.col("t"), "id")


def test_a_frame_keeps_where_its_tickets_turn_over(spark: SparkSession, tmp_path: Path) -> None:
    stamped = stamp(spark.range(20), "crm", "id", last_number=7)
    stamped.write.parquet(str(tmp_path / "kept"))
    kept = spark.read.parquet(str(tmp_path / "kept")).where("id >= 0").select("id", F.col("ticket").alias("arrived"))
    joined = kept.join(spark.range(20), "id").withColumn("g", F.lit("g"))
    ordered = resequence(joined, group="g", sequence="arrived", policy=Standard())
    assert [(row.id, row.ordinal) for row in ordered.collect()] == [(n, n + 1) for n in range(20)]


def lines(first: int, count: int) -> list[dict[str, Any]]:
    """Messages of two locations, the later ones first."""
    return [{"place": place, "n": n} for n in reversed(range(first, first + count)) for place in ("a", "b")]


@pytest.mark.telling
def test_a_batch_that_runs_again_gives_the_same_tickets(spark: SparkSession, tmp_path: Path) -> None:
    source = stream_of(spark, tmp_path / "in", "place string, n long")
    stamped = stamp(source, F.col("place"), "n", last_number=7, buckets=2)
    taken: list[dict[tuple[str, int], Ticket]] = []

    def read(batch: DataFrame) -> list[Any]:
        rows = batch.collect()
        if rows:
            taken.append({(row.place, row.n): ticket(row) for row in rows})
        if len(taken) == 2:
            raise RuntimeError("the sink is gone")
        return rows

    for number in range(3):
        put(tmp_path / "in", number, lines(10 * number, 10))
    assert "the sink is gone" in str(raised(lambda: run_until(stamped, tmp_path / "checkpoint", 60, read)))
    assert len(run_until(stamped, tmp_path / "checkpoint", 40, read)) == 40
    first, failed, again, last = taken
    assert failed == again
    for place in ("a", "b"):
        in_order = [batch[place, n] for batch in (first, again, last) for at, n in sorted(batch) if at == place]
        assert in_order == numbered(place, 30, 7)


def test_packets_are_the_same_in_whichever_order_a_shuffle_brings_them(spark: SparkSession) -> None:
    """Spark compares what a task writes for others when it runs again, and ends the query if it differs."""
    plan, columns = StampPlan(("n",), 7, ""), pa.schema([("n", pa.int64()), (LOCATION, pa.string())])
    stamped = []
    for bucket, place in ((0, 0), (0, 1), (1, 1), (1, 2)):
        numbers = pa.array(range(10 * bucket, 10 * bucket + 5 + place))
        rows = pa.table([numbers, pa.array([str(bucket)] * len(numbers))], schema=columns)
        positions = np.arange(1, len(numbers) + 1, dtype=np.int64)
        stamped.append((bucket, place, to_bytes(rows).to_pybytes(), positions.tobytes()))
    shown = T.StructType().add("n", "long").add("ticket", TICKET)
    found = []
    for order in (stamped, stamped[::-1], stamped[2:] + stamped[:2]):
        frame = spark.createDataFrame(order, STAMPED_SCHEMA).coalesce(1)
        ticketed = with_tickets(frame, plan, shown).withColumn("even", F.col("n") % 2)
        found.append(sorted(ticketed.mapInArrow(pack_by("even", [0, 1]), PACKET_SCHEMA).collect()))
    assert found[0]
    assert found[0] == found[1] == found[2]


def test_another_declaration_is_refused_before_anything_is_stamped(spark: SparkSession, tmp_path: Path) -> None:
    source = stream_of(spark, tmp_path / "in", "place string, n long")
    put(tmp_path / "in", 1, lines(1, 2))
    run_until(stamp(source, "crm", ["place", "n"], 7, buckets=2), tmp_path / "checkpoint", 4)
    put(tmp_path / "in", 2, lines(3, 2))
    # Of all these only the first is sure to find the location where it was.
    for last_number, buckets in [(8, 2), (7, 1), (7, 64)]:
        other = stamp(source, "crm", ["place", "n"], last_number, buckets=buckets)
        error = raised(lambda frame=other: run_until(frame, tmp_path / "checkpoint", 4))
        assert type(error) is CheckpointMismatch
        assert f'"last_number": {last_number}' in str(error)
        assert f'"buckets": {buckets}' in str(error)


def test_turn_overs_in_flight_leave_no_hole(spark: SparkSession, tmp_path: Path) -> None:
    # Tickets that were given out in order come to the resequencer in any.
    rows = [(place, n) for place in ("a", "b") for n in range(1, 41)]
    stamped = stamp(spark.createDataFrame(rows, "place string, n long"), F.col("place"), "n", last_number=7)
    scrambled = stamped.withColumn("batch", F.pmod(F.hash("place", "n"), F.lit(4))).toPandas()
    folder = tmp_path / "in"
    for number in range(4):
        part = spark.createDataFrame(scrambled[scrambled.batch == number].drop(columns="batch"), stamped.schema)
        part.coalesce(1).write.mode("append").parquet(str(folder))
    source = spark.readStream.schema(stamped.schema).option("maxFilesPerTrigger", 1).parquet(str(folder))
    ordered = resequence(source, group="place", sequence="ticket", policy=Standard(), buckets=2)
    released = run_until(ordered, tmp_path / "checkpoint", len(rows))
    for place in ("a", "b"):
        assert [(row.n, row.ordinal) for row in released if row.place == place] == [(n, n) for n in range(1, 41)]


def chained(
    source: DataFrame, location: str | Column, first: DataFrame | None, control: Path | None, **options: Any
) -> DataFrame:
    stamped = stamp(source, location, "n", last_number=7, buckets=2)
    queue = Queue("main", Standard(hole_timeout=1000, on_hole="skip"), "place", "ticket")
    ordering = Ordering(
        queues=[queue], layout=StateLayout(buckets=2), start_from=first, control=control, output="all", **options
    )
    return put_in_order(stamped, ordering)


@pytest.mark.parametrize("clock", ["processing", "event"])
def test_stamp_and_resequence_in_one_query(spark: SparkSession, tmp_path: Path, clock: str) -> None:
    source = stream_of(spark, tmp_path / "in", "place string, n long, at timestamp")
    control = tmp_path / "control"
    options: dict[str, Any] = {}
    if clock == "event":
        source = source.withWatermark("at", "0 seconds")
        options = {"clock": "event", "time": "at"}
    # Group b begins at its third message, so the two before are invalid.
    first = spark.createDataFrame([("b", 3)], "group string, next long")
    failures = iter([False, True])

    def read(batch: DataFrame) -> list[Any]:
        rows = batch.collect()
        if rows and next(failures, False):
            raise RuntimeError("the sink is gone")
        return rows

    def query(rows: int) -> list[Any]:
        frame = chained(source, F.col("place"), first, control, **options)
        return run_until(frame, tmp_path / "checkpoint", rows, read)

    for number in range(3):
        at = {"at": f"2026-01-01T00:{10 * number:02d}:00Z"}
        put(tmp_path / "in", number, [line | at for line in lines(1 + 10 * number, 10)])
    decided: list[Any] = []
    assert "the sink is gone" in str(raised(lambda: decided.extend(query(60))))
    decided = query(40)
    a = [(row.n, row.ordinal) for row in decided if row.place == "a" and row.disposition == "released"]
    b = [(row.n, row.ordinal) for row in decided if row.place == "b" and row.disposition == "released"]
    assert a == [(n, n) for n in range(11, 31)]
    assert b == [(n, n - 2) for n in range(11, 31)]


@pytest.mark.parametrize("declared", ["before the stamp", "behind the stamp"])
def test_event_time_goes_through_the_stamp(spark: SparkSession, tmp_path: Path, declared: str) -> None:
    # Group, number and second of each message, by batch. In each group a hole is due after 100 seconds: in g before
    # the message of the third batch, so those of the fourth are late; they are behind the watermark too, but not
    # dropped. In h after the last message of all: time alone releases what waits.
    batches = [
        [("g", 2, 0), ("g", 3, 10)],
        [("g", 5, 20)],
        [("g", 6, 2000)],
        [("g", 1, 30), ("g", 4, 40)],
        [("h", 2, 2000), ("h", 4, 2000)],
        [("i", 1, 4000)],
    ]
    fates = ["g1 late", "g2 1", "g3 2", "g4 late", "g5 3", "g6 4", "h2 1", "h4 2", "i1 1"]
    source = stream_of(spark, tmp_path / "in", "g string, n long, at timestamp")
    for number, batch in enumerate(batches):
        start = datetime(2026, 1, 1, tzinfo=UTC)
        rows = [{"g": g, "n": n, "at": (start + timedelta(seconds=s)).isoformat()} for g, n, s in batch]
        put(tmp_path / "in", number, rows)
    before = declared == "before the stamp"
    ordered = resequence(
        stamp(source.withWatermark("at", "0 seconds") if before else source, F.col("g"), "n", buckets=2),
        group="g",
        sequence="n",
        policy=Standard(hole_timeout=100, on_hole="skip"),
        clock="event",
        time="at",
        watermark=None if before else 0,
        output="all",
        buckets=2,
    )
    decided = run_until(ordered, tmp_path / "checkpoint", len(fates))
    assert sorted(f"{row.g}{row.n} {row.ordinal or row.disposition}" for row in decided) == fates


def entry(location: str, how: Stamp | None) -> Receive:
    return Receive(location, Source("json", Path("inbox")), stamp=how)


RECEIVED = """
    message_id string, location string, received_at timestamp, version long, _invalid string, _file string,
    _position long
"""


def received(spark: SparkSession, rows: list[tuple[str, str, int | None, str | None, int]]) -> DataFrame:
    when = datetime(2026, 1, 1, tzinfo=UTC)
    full = [(m, place, when, version, why, "f", position) for m, place, version, why, position in rows]
    return spark.createDataFrame(full, RECEIVED).repartition(3)


def test_the_locations_of_a_pipeline(spark: SparkSession) -> None:
    frame = received(
        spark,
        [
            ("a1", "a", None, None, 0), ("a2", "a", 9, "not JSON", 1), ("a3", "a", 1, None, 2), ("a4", "a", 1, None, 3),
            ("b1", "b", 5, None, 0), ("b2", "b", 4, None, 1), ("b3", "b", None, None, 2), ("b4", "b", 3, None, 3),
            ("c1", "c", 1, None, 0), ("c2", "c", 1, None, 0),
        ],
    )  # fmt: skip
    entries = [
        entry("a", Stamp(last_number=2)),
        entry("b", Stamp(last_number=1, order_by=("version",))),
        entry("c", None),
    ]
    stamped = stamp_locations(frame, entries, buckets=2)
    found = {row.message_id: row for row in stamped.collect()}
    assert {name: ticket(row) for name, row in found.items() if row.ticket.location is not None} == {
        "a1": ("a", 0, 1), "a3": ("a", 0, 2), "a4": ("a", 1, 1),
        "b4": ("b", 0, 1), "b2": ("b", 1, 1), "b1": ("b", 2, 1),
    }  # fmt: skip
    assert {name: ticket(found[name]) for name in ("a2", "b3", "c1", "c2")} == dict.fromkeys(
        ("a2", "b3", "c1", "c2"), (None, None, None)
    )
    assert {name: row._invalid for name, row in found.items() if row._invalid} == {
        "a2": "not JSON",
        "b3": "stamp: version, by which its location is ordered, is null",
    }
    # Locations turn over at numbers of their own; by ticket each is contiguous nevertheless.
    ordered = resequence(
        stamped, group="location", sequence="ticket", policy=Standard(), invalid="_invalid", output="all"
    )
    fates = {row.message_id: (row.disposition, row.ordinal) for row in ordered.collect()}
    assert {name: fates[name] for name in ("a1", "a3", "a4")} == {
        "a1": ("released", 1), "a3": ("released", 2), "a4": ("released", 3)
    }  # fmt: skip
    assert {name: fates[name][1] for name in ("b4", "b2", "b1")} == {"b4": 1, "b2": 2, "b1": 3}
    assert {fates[name][0] for name in ("a2", "b3", "c1", "c2")} == {"invalid"}


def test_a_pipeline_without_stamps_has_tickets_of_nulls(spark: SparkSession) -> None:
    stamped = stamp_locations(received(spark, [("c1", "c", 1, None, 0)]), [entry("c", None)])
    assert [ticket(row) for row in stamped.collect()] == [(None, None, None)]
    assert stamped.dtypes[-1] == ("ticket", "struct<location:string,epoch:bigint,number:bigint>")


def test_the_parts_of_a_message_are_numbered_in_their_order(spark: SparkSession) -> None:
    whole = received(spark, [("m", "a", None, None, 0), ("n", "a", None, None, 1)])
    parts = F.when(F.col("message_id") == "m", F.sequence(F.lit(1), F.lit(3)))
    frame = whole.withColumn("part", F.explode_outer(parts)).withColumn("part", F.col("part").cast("long"))
    found = stamp_locations(frame, [entry("a", Stamp())]).collect()
    in_order = sorted(found, key=lambda row: row.ticket.number)
    assert [(row.message_id, row.part) for row in in_order] == [("m", 1), ("m", 2), ("m", 3), ("n", None)]
