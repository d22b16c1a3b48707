"""`stamp`: a ticket for each message on arrival, gap-free per location, on Spark.

The plan of the query: rows → packets by bucket of locations → the stateful operator → rows with tickets.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from seriatim.errors import ColumnError, UsageError, is_whole
from seriatim.kernel.groups.sequence import LAST_NUMBER
from seriatim.pipeline.declared.pipeline import MOST_BUCKETS, REGION, Receive, Stamp
from seriatim.spark.frames.columns import NESTED, TICKET, TURN_OVER, check_columns, check_frame, quoted, type_of
from seriatim.spark.receive.stage import ARRIVAL
from seriatim.spark.session.requirements import make_ready
from seriatim.spark.stamp.operator import (
    LOCATION,
    STAMPED_SCHEMA,
    Resting,
    Stamper,
    StampPlan,
    add_tickets,
    stamp_to_the_end,
)
from seriatim.spark.state.buckets import DEFAULT_BUCKETS, bucket_ids
from seriatim.spark.state.packets import PACKET_SCHEMA, pack_by, with_witness

_BUCKET = "__sq_bucket"
_ORDERED = (
    T.ByteType,
    T.ShortType,
    T.IntegerType,
    T.LongType,
    T.DecimalType,
    T.StringType,
    T.BinaryType,
    T.DateType,
    T.TimestampType,
    T.TimestampNTZType,
)

_V = TypeVar("_V")


def stamp(
    df: DataFrame,
    location: str | Column,
    order_by: str | Sequence[str],
    last_number: int = LAST_NUMBER,
    *,
    buckets: int = DEFAULT_BUCKETS,
) -> DataFrame:
    """Give each message a ticket: (location, epoch, number), gap-free and ascending in order of arrival. Micro-batches arrive one after
    another. In a micro-batch, the messages of a location arrive in the order of `order_by`. The counters live in the query's checkpoint: a
    batch that runs again gives the same tickets.
    """
    check_frame(df, "stamp")
    if not is_whole(buckets, 1, MOST_BUCKETS):
        raise UsageError(f"buckets must be a whole number from 1 to {MOST_BUCKETS}, not {buckets!r}")
    _check_last_number(last_number)
    check_columns(df, ["ticket"])
    order = (order_by,) if isinstance(order_by, str) else tuple(order_by)
    _check_order(df, order)
    name = _location(df, location)
    spread = F.when(name.isNull(), F.xxhash64(*map(quoted, order))).otherwise(F.xxhash64(name))
    plan = StampPlan(order, last_number, _fingerprint(last_number, buckets))
    return _stamped(df, name, F.pmod(spread, F.lit(buckets)), plan, buckets)


def stamp_locations(
    df: DataFrame,
    received: Sequence[Receive],
    *,
    buckets: int = DEFAULT_BUCKETS,
    following: Mapping[str, int] | None = None,
) -> DataFrame:
    """Stamp the messages of a pipeline, as its locations declare. Messages of locations without `stamp`, and messages that are invalid
    already, have tickets of nulls: a message that can't be released gets no number, because other messages would wait behind it. If a
    location is ordered by its own properties, a message that lacks one of them has no place in the order and becomes invalid.
    `following`: positions to which tickets were counted before in another way, by location.
    """
    stamps = {entry.location: entry.stamp for entry in received if entry.stamp is not None}
    if not stamps:
        return df.withColumn("ticket", F.struct(*[F.lit(None).cast(f.dataType).alias(f.name) for f in TICKET]))
    merged = any(entry.region is not None for entry in received)
    orders = {location: _order_of(df, stamp, merged=merged) for location, stamp in stamps.items()}
    for location, order in orders.items():
        _check_order(df, order, where=f"location {location!r}: ")
        _check_last_number(stamps[location].last_number)
    df = _without_place(df, stamps)
    name = F.when(F.col("location").isin(list(stamps)) & F.col("_invalid").isNull(), F.col("location"))
    # Neighbouring numbers spread few locations as evenly as many.
    places = [F.when(name == location, F.lit(place)) for place, location in enumerate(stamps)]
    spread = F.coalesce(*places, F.xxhash64("message_id"))
    plan = replace(plan_by_counts(received, buckets, following or {}), order_by=_alike(orders))
    return _stamped(df, name, F.pmod(spread, F.lit(buckets)), plan, buckets)


def plan_by_counts(received: Sequence[Receive], buckets: int, following: Mapping[str, int]) -> StampPlan:
    """The plan of an operator that gives tickets by the counts of blocks, at least one location of which has some."""
    last_number = _alike({entry.location: entry.stamp.last_number for entry in received if entry.stamp is not None})
    return StampPlan((), last_number, _fingerprint(last_number, buckets), following)


def resting(rows: DataFrame) -> DataFrame:
    """Rows of buckets as they are, passed through the operator of `stamp_locations`, where tickets are given by counts."""
    return rows.groupBy("bucket").transformWithStateInPandas(
        statefulProcessor=Resting(rows.columns), outputStructType=rows.schema, outputMode="Append", timeMode="None"
    )


def _location(df: DataFrame, location: str | Column) -> Column:
    if isinstance(location, str):
        if location in df.columns:
            raise UsageError(
                f"{location!r} is a column of the frame, but text is the name of one location",
                where="location",
                remedy=f'give F.col("{location}") for the column, F.lit("{location}") for the name',
            )
        return F.lit(location)
    if not isinstance(location, Column):
        raise UsageError(f"a location must be text or a column, not {location!r}")
    kind = df.select(location.alias("location")).schema["location"].dataType
    if isinstance(kind, NESTED):
        raise ColumnError(f"a location can't be a {kind.simpleString()}", remedy="name a field of it")
    return location.cast("string")


def _check_last_number(last_number: int) -> None:
    if not is_whole(last_number, 1, LAST_NUMBER):
        raise UsageError(f"last_number must be a whole number from 1 to {LAST_NUMBER}, not {last_number!r}")


def _check_order(df: DataFrame, order: Sequence[str], where: str = "") -> None:
    if not order:
        raise UsageError(f"{where}order_by names no column", remedy="name the columns that give the order of arrival")
    for name in order:
        kind = type_of(df, name, "order of arrival")
        if not isinstance(kind, _ORDERED):
            raise ColumnError(
                f"a {kind.simpleString()} has no order",
                where=f"{where}column {name!r}",
                remedy="order_by takes whole numbers, decimals, text, binary, dates and timestamps",
            )


def _order_of(df: DataFrame, how: Stamp, *, merged: bool) -> tuple[str, ...]:
    """Return the columns of a location's order: its own, or file and row, and the part if messages are split. Of two regions' messages each
    is there twice, so that the region is one of them; `merged`: there are two.
    """
    order = how.order_by or tuple(name for name in ARRIVAL if name != "location")
    own = [REGION] if merged else []
    if "part" in df.columns and "part" not in order:
        own.append("part")
    return (*order, *own)


def _without_place(df: DataFrame, stamps: Mapping[str, Stamp]) -> DataFrame:
    """The frame in which messages that lack a column of their location's order are marked as invalid."""
    reasons = [F.col("_invalid")]
    for location, how in stamps.items():
        lacking = [F.when(quoted(name).isNull(), F.lit(name)) for name in how.order_by]
        if lacking:
            reason = F.concat(
                F.lit("stamp: "), F.coalesce(*lacking), F.lit(", by which its location is ordered, is null")
            )
            reasons.append(F.when(F.col("location") == location, reason))
    return df.withColumn("_invalid", F.coalesce(*reasons)) if len(reasons) > 1 else df


def _alike(values: Mapping[str, _V]) -> _V | Mapping[str, _V]:
    first = next(iter(values.values()))
    return first if all(value == first for value in values.values()) else values


def _fingerprint(last_number: int | Mapping[str, int], buckets: int) -> str:
    description: dict[str, Any] = {"buckets": buckets, "last_number": last_number}
    return json.dumps({"stamp": description}, sort_keys=True)


def _stamped(df: DataFrame, location: Column, bucket: Column, plan: StampPlan, buckets: int) -> DataFrame:
    make_ready(df)
    fields = [T.StructField(f.name, f.dataType, True, f.metadata) for f in df.schema]
    shown = T.StructType([*fields, T.StructField("ticket", TICKET, True, {TURN_OVER: plan.last_number})])
    frame = df.select(*map(quoted, df.columns), location.alias(LOCATION), bucket.cast("int").alias(_BUCKET))
    pack = pack_by(_BUCKET, bucket_ids(buckets))
    if not df.isStreaming:
        packets = frame.mapInArrow(pack, PACKET_SCHEMA)
        return packets.repartition(buckets, "bucket").mapInArrow(stamp_to_the_end(plan), shown)
    packets = frame.mapInArrow(with_witness(pack), PACKET_SCHEMA)
    stamped = packets.groupBy("bucket").transformWithStateInPandas(
        statefulProcessor=Stamper(plan), outputStructType=STAMPED_SCHEMA, outputMode="Append", timeMode="None"
    )
    return with_tickets(stamped, plan, shown)


def with_tickets(stamped: DataFrame, plan: StampPlan, shown: T.StructType) -> DataFrame:
    """The messages with their tickets, spread over the tasks: all messages of a location come from one task, but later stages
    use all tasks.
    """
    tasks = int(stamped.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1)
    spread = stamped.repartitionById(tasks, F.pmod(F.col("place"), F.lit(tasks)))
    return spread.mapInArrow(add_tickets(plan), shown)
