"""The query of a pipeline, up to its sink: receive, stamp, process, route, process, resequence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from seriatim.errors import CheckpointMismatch, UsageError
from seriatim.kernel.groups.policy import Fifo
from seriatim.pipeline.declared.pipeline import REGION, Destination, Pipeline, StartFrom
from seriatim.pipeline.declared.subscription import Subscription
from seriatim.spark.calls.register import Calling
from seriatim.spark.control.clock import control_offset, rows_of
from seriatim.spark.control.log import FINISH, WAKE, ControlLog
from seriatim.spark.front.chosen import why_apart
from seriatim.spark.front.stage import COUNTED, front
from seriatim.spark.process.stage import process
from seriatim.spark.receive.stage import ARRIVAL, arrival, identity, receive
from seriatim.spark.resequence.bucket import Plan
from seriatim.spark.resequence.decided_packets import NOWHERE
from seriatim.spark.resequence.first_numbers import first_numbers, keep_first_numbers
from seriatim.spark.resequence.held import operators
from seriatim.spark.resequence.moved_buckets import move_buckets
from seriatim.spark.resequence.ordering import Ordering, Packed
from seriatim.spark.resequence.stage import judged_here, put_in_order
from seriatim.spark.route.stage import destinations_of
from seriatim.spark.session.requirements import arrow_schema
from seriatim.spark.stamp.stage import plan_by_counts, stamp_locations
from seriatim.spark.state.manifest import fingerprint
from seriatim.spark.state.state_layout import StateLayout

_OBSERVED = "seriatim"
_ROUTER = "seriatim-router"
_UNNOTED = Calling()


def decided(
    spark: SparkSession,
    pipeline: Pipeline,
    *,
    layout: StateLayout,
    control: Path,
    calling: Calling = _UNNOTED,
    stamp_buckets: int | None = None,
) -> DataFrame:
    """Return every message of a pipeline, once for each destination, when it is decided; and the operator's reports. Where tickets are
    given by counts, one stage takes the place of the first ones (`front`); they tell the columns all the same, and raise the errors.
    """
    later = () if layout.history is None else layout.history.first_numbers
    begin = [route for route in pipeline.route if route.queue.name not in later]
    start_from = [_first_numbers(spark, route, route.start_from) for route in begin if route.start_from is not None]
    stamped = stamp_locations(
        receive(spark, pipeline, calling=calling),
        pipeline.receive,
        buckets=stamp_buckets or layout.buckets,
        following=layout.following,
    )
    worked_on = process(stamped, pipeline, calling=calling)
    entered = process(_entered(worked_on, pipeline), pipeline, routed=True, calling=calling)
    order = _arrival(pipeline)
    # Columns that only give the order of arrival are dropped where tickets give it.
    entered = entered.drop(*(set(ARRIVAL) - {"location"} - set(order)))
    by_arrival = any(isinstance(route.queue.policy, Fifo) for route in pipeline.route)
    ordering = Ordering(
        queues=[*(route.queue for route in pipeline.route), NOWHERE],
        destination="destination",
        invalid="_invalid",
        arrival=order,
        clock=pipeline.clock,
        time=pipeline.time,
        watermark=pipeline.watermark_s if pipeline.clock == "event" else None,
        start_from=reduce(DataFrame.unionByName, start_from) if start_from else None,
        output="all",
        region=REGION if pipeline.merges else None,
        message_id=identity(pipeline) if pipeline.merges else None,
        horizon=pipeline.horizon_s if pipeline.merges and by_arrival else None,
        claims=pipeline.claims is not None,
        layout=layout,
        packed=True,
        front=_front(spark, pipeline, entered, layout, stamp_buckets or layout.buckets) if layout.by_counts else None,
        control=control,
    )
    return put_in_order(entered, ordering)


def _front(
    spark: SparkSession, pipeline: Pipeline, entered: DataFrame, layout: StateLayout, stamp_buckets: int
) -> Packed:
    """The packets of the same messages, made in one stage, and counted as `_entered` does."""
    if (reason := why_apart(pipeline)) is not None:
        raise CheckpointMismatch(
            f"a batch was begun in one stage from text to packets, which can't be: {reason}",
            remedy="finish the batch with the former declaration",
        )
    whole = T.StructType([field for field in entered.schema if field.name not in ("ticket", "destination")])
    packets = front(spark, pipeline, arrow_schema(spark, whole), layout.buckets)
    counts = [F.sum(F.get(COUNTED, F.lit(place))) for place in range(len(pipeline.route) + 2)]
    packets = packets.observe(_ROUTER, counts[0].alias("received"))
    to = [count.alias(f"to_{place}") for place, count in enumerate(counts[1:-1])]
    packets = packets.observe(_OBSERVED, counts[-1].alias("nowhere"), *to)
    stamped = any(entry.stamp is not None for entry in pipeline.receive)
    tickets = plan_by_counts(pipeline.receive, stamp_buckets, layout.following) if stamped else None
    return Packed(packets, tickets)


def keep_first_numbers_of(spark: SparkSession, layout: StateLayout, destination: Destination, folder: Path) -> None:
    """Keep the first numbers of the groups of a destination that is added now; without `start_from` there are none."""
    if destination.start_from is None:
        return
    numbers = _first_numbers(spark, destination, destination.start_from)
    first = first_numbers(numbers, [destination.queue], layout.buckets, several=True, by_key=layout.by_key)
    keep_first_numbers(first, folder)


def _plan_of_state(pipeline: Pipeline, layout: StateLayout) -> Plan:
    """The plan of a pipeline's operator, as far as its state goes."""
    queues = [*(route.queue for route in pipeline.route), NOWHERE]
    plan = fingerprint(queues, layout.buckets, pipeline.clock, by_key=layout.by_key, merged=pipeline.merges)
    judged = tuple(judged_here(queue, merged=pipeline.merges, horizon=pipeline.horizon_s) for queue in queues)
    return Plan(
        queues=judged,
        destination="destination",
        invalid=None,
        user=(),
        clock=pipeline.clock,
        arrivals=(),
        output="all",
        reports=True,
        fingerprint=plan,
        buckets=layout.buckets,
        history=layout.history,
        by_key=layout.by_key,
        region=REGION if pipeline.merges else None,
    )


def cut_state(
    spark: SparkSession, query: Path, pipeline: Pipeline, *, layout: StateLayout, to: int, folder: Path
) -> None:
    """Write the groups of a stopped pipeline, cut into another number of buckets; the next batch reads them."""
    before = _plan_of_state(pipeline, layout)
    after = _plan_of_state(pipeline, replace(layout, buckets=to))
    states = operators(spark, str(query.absolute()))
    if not states:
        raise UsageError("the checkpoint has no state of resequence", where=str(query))
    for operator in states:
        move_buckets(spark, str(query.absolute()), operator, before, after, folder)


def _arrival(pipeline: Pipeline) -> list[str]:
    """The columns of the order of arrival; a total order."""
    own = [pipeline.arrival] if pipeline.arrival else []
    if any(entry.stamp is None for entry in pipeline.receive):
        return [*own, *arrival(pipeline)]
    by_properties = any(entry.stamp is not None and entry.stamp.order_by for entry in pipeline.receive)
    if by_properties or len({entry.location for entry in pipeline.receive}) == 1:
        return [*own, "ticket"]
    return [*own, "received_at", "ticket"]


def let_time_run_out(control: Path) -> int:
    """Command every bucket to let time run out: it releases and skips messages as if all its clocks had ended."""
    return ControlLog.of_checkpoint(control).append([{"kind": FINISH}])


def wake(control: Path, former_buckets: int = 0) -> int:
    """Make the next batch call every bucket, even one for which nothing arrives."""
    return ControlLog.of_checkpoint(control).append([{"kind": WAKE, "former": former_buckets}])


def was_commanded(progress: Mapping[str, Any], number: int) -> bool:
    offset = control_offset(progress)
    return offset is not None and bool(offset["log"] >= number)


def is_idle(progress: Mapping[str, Any]) -> bool:
    """Whether no source had new data at the time of this report."""
    sources = progress["sources"]
    return all(source["numInputRows"] == 0 and source["startOffset"] == source["endOffset"] for source in sources)


def rows_read(progress: Mapping[str, Any]) -> int:
    """The number of rows that the micro-batch of a progress event has read from its locations."""
    return int(progress["numInputRows"]) - rows_of(progress)


def behind_in(progress: Mapping[str, Any]) -> int | None:
    """Return how many records the query is behind its source, by a progress event: for the partition that is furthest behind. None: no
    source tells that; Kafka's does.
    """
    lags = [source["metrics"].get("maxOffsetsBehindLatest") for source in progress["sources"] if source.get("metrics")]
    numbers = [int(lag) for lag in lags if lag is not None]
    return max(numbers) if numbers else None


def _entered(messages: DataFrame, pipeline: Pipeline) -> DataFrame:
    """Each message with its destinations, counted before and after routing. Code under a destination takes a row for each destination.
    Without such code the destinations are an array, and `resequence` repeats the message: passing a row from Spark to Python costs more
    than repeating it there.
    """
    counted = messages.observe(_ROUTER, F.count(F.lit(1)).alias("received"))
    names = [destination.queue.name for destination in pipeline.route]
    subscriptions = [Subscription(route.queue.name, route.where, route.queue.name) for route in pipeline.route]
    wanted = F.col("destination")
    counts = [F.count_if(F.array_contains(wanted, name)).alias(f"to_{place}") for place, name in enumerate(names)]
    nowhere = F.count_if(wanted == F.array(F.lit(NOWHERE.name))).alias("nowhere")
    destinations = destinations_of(counted, subscriptions)
    destinations = destinations.withColumn(
        "destination", F.when(F.size(wanted) > 0, wanted).otherwise(F.array(F.lit(NOWHERE.name)))
    )
    destinations = destinations.observe(_OBSERVED, nowhere, *counts)
    each = any(route.process is not None for route in pipeline.route)
    return destinations.withColumn("destination", F.explode(wanted)) if each else destinations


def arrived_in(progress: Mapping[str, Any], pipeline: Pipeline) -> dict[str, int]:
    """The number of messages for each destination in the micro-batch of a progress event."""
    observed = progress["observedMetrics"].get(_OBSERVED)
    names = [destination.queue.name for destination in pipeline.route]
    if observed is None:
        return dict.fromkeys(names, 0)
    return {name: observed[f"to_{place}"] or 0 for place, name in enumerate(names)}


def received_in(progress: Mapping[str, Any]) -> tuple[int, int]:
    """The number of messages that the router got in the micro-batch of a progress event, and of those with a destination."""
    metrics = progress["observedMetrics"]
    if _ROUTER not in metrics or _OBSERVED not in metrics:
        return 0, 0
    received = metrics[_ROUTER]["received"] or 0
    return received, received - (metrics[_OBSERVED]["nowhere"] or 0)


def _first_numbers(spark: SparkSession, destination: Destination, source: StartFrom) -> DataFrame:
    """(destination, group, next) of a file of first numbers."""
    where = f"start_from of {destination.queue.name}"
    reader = spark.read.option("header", "true") if source.format == "csv" else spark.read
    frame = reader.format(source.format).load(str(source.path.absolute()))
    for column in (source.group, source.next):
        if column not in frame.columns:
            known = ", ".join(name for name in frame.columns if not name.startswith("_"))
            raise UsageError(f"{source.path} has no column {column!r}", where=where, remedy=f"it has {known}")
    numbers = frame.select(
        F.lit(destination.queue.name).alias("destination"),
        F.col(f"`{source.group}`").cast("string").alias("group"),
        F.col(f"`{source.next}`").try_cast("bigint").alias("next"),
    )
    bad = numbers.where(F.col("group").isNull() | F.col("next").isNull()).limit(1).collect()
    if bad:
        problem = (
            f"{source.path}: group {bad[0].group!r} has no first number"
            if bad[0].group
            else f"{source.path}: a row has no group"
        )
        raise UsageError(problem, where=where, remedy=f"{source.group} is text, {source.next} a whole number")
    return numbers
