"""The table of sequences on Spark: a column of each type reads as its values do in memory."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import seriatim as sq
from seriatim.kernel.values.outcome import REASONS, Reason
from seriatim.kernel.values.reading import of_size
from seriatim.spark import resequence
from tests.conformance import readings
from tests.conformance.readings import Reading

_TICKET = pa.struct([("epoch", pa.int32()), ("number", pa.int64())])
#: By the name of a column: its Arrow type, and the readings.
COLUMNS: dict[str, tuple[pa.DataType, tuple[Reading, ...]]] = {
    "whole": (pa.int64(), readings.WHOLE),
    "short": (pa.int16(), (Reading(7, 7), Reading(None, Reason.SEQUENCE_MISSING))),
    "written": (pa.string(), readings.TEXTS),
    "of_double": (pa.float64(), readings.DOUBLES),
    "of_float": (pa.float32(), readings.FLOATS),
    "exact": (pa.decimal128(38, 10), readings.DECIMALS),
    "ticket": (_TICKET, readings.TICKETS),
    "moment": (pa.string(), readings.TIME_TEXTS),
}


def plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return {"epoch": value[0], "number": value[1]}
    return float(value) if hasattr(value, "dtype") else value


def rows() -> list[dict[str, Any]]:
    """A group for each reading: a queue's sequence is the column with the queue's name."""
    found = []
    for name, (_, its) in COLUMNS.items():
        for place, one in enumerate(its):
            value = plain(one.value)
            found.append({"to": name, "key": f"{name} {place}", "of_set": 1, name: value})
            if name not in ("ticket", "moment"):
                found.append({"to": f"set {name}", "key": f"set {name} {place}", "of_set": 1, name: value})
    return found


@pytest.fixture(scope="module")
def decided(spark: SparkSession) -> dict[str, tuple[str, str, Any]]:
    """Disposition, reason and number by the group, in a session whose time zone isn't UTC."""
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        schema = pa.schema(
            [("to", pa.string()), ("key", pa.string()), ("of_set", pa.int64())]
            + [(name, kind) for name, (kind, _) in COLUMNS.items()]
        )
        frame = spark.createDataFrame(pa.Table.from_pylist(rows(), schema))
        by_time = sq.BestEffort(by="time")
        queues = [sq.Queue(one, sq.BestEffort(), group="key", sequence=one) for one in COLUMNS if one != "moment"]
        queues.append(sq.Queue("moment", by_time, group="key", sequence="moment"))
        queues += [
            sq.Queue(f"set {one}", sq.UnitOfWork(size=one), group="key", sequence="of_set")
            for one in COLUMNS
            if one not in ("ticket", "moment")
        ]
        found = resequence(
            frame.withColumnRenamed("to", "destination"), queues=queues, arrival="of_set", output="all", buckets=2
        ).toArrow()
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    return {row["key"]: (row["disposition"], row["reason"] or "", row) for row in found.to_pylist()}


CASES = [(name, place, one) for name, (_, its) in COLUMNS.items() for place, one in enumerate(its)]


def ids(value: object) -> str:
    return str(value)


@pytest.mark.parametrize(("name", "place", "reading"), CASES, ids=ids)
def test_a_sequence_on_spark(name: str, place: int, reading: Reading, decided: Any) -> None:
    disposition, reason, _ = decided[f"{name} {place}"]
    if isinstance(reading.gives, Reason):
        assert (disposition, reason) == ("invalid", REASONS[reading.gives])
    else:
        assert (disposition, reason) == ("released", "")


@pytest.mark.parametrize(("name", "place", "reading"), [c for c in CASES if c[0] not in ("ticket", "moment")], ids=ids)
def test_a_size_on_spark(name: str, place: int, reading: Reading, decided: Any) -> None:
    disposition, reason, _ = decided[f"set {name} {place}"]
    if reading.gives is Reason.SEQUENCE_MISSING:
        assert disposition == "held", "it says nothing"
    elif isinstance(reading.gives, Reason):
        assert (disposition, reason) == ("invalid", REASONS[of_size(reading.gives)])
    elif reading.gives < 1:
        assert (disposition, reason) == ("invalid", REASONS[Reason.SIZE_BELOW_ONE])
    else:
        assert disposition == ("released" if reading.gives == 1 else "held")


def test_the_numbers_are_those_of_the_table(spark: SparkSession) -> None:
    from seriatim.spark.resequence.input_columns import _number

    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        for name, (kind, its) in COLUMNS.items():
            values = [plain(one.value) for one in its]
            frame = spark.createDataFrame(pa.table({"place": range(len(its)), name: pa.array(values, kind)}))
            policy = sq.BestEffort(by="time") if name == "moment" else sq.BestEffort()
            numbers = _number(frame, sq.Queue("q", policy, group="place", sequence=name))
            found = [row[0] for row in frame.orderBy("place").select(numbers).collect()]
            assert found == [None if isinstance(one.gives, Reason) else one.gives for one in its], name
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)


@pytest.mark.parametrize("kind", ["boolean", "binary", "date", "timestamp", "array<int>", "struct<number: bigint>"])
def test_a_column_of_another_type_is_refused(spark: SparkSession, kind: str) -> None:
    frame = spark.createDataFrame([], f"key string, number {kind}")
    with pytest.raises(sq.ColumnError, match=r"column 'number': a sequence can't be a"):
        resequence(frame, group="key", sequence="number", policy=sq.BestEffort())
