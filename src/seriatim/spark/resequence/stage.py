"""`resequence`: scrambled messages in, ordered messages out, on Spark.

The plan of the query: rows → packets by bucket, and the control source → the stateful operator → rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from seriatim.errors import ColumnError, UsageError, is_whole
from seriatim.kernel.fields import fields_apart
from seriatim.kernel.groups import numbers
from seriatim.kernel.groups.policy import (
    BestEffortNumbers,
    Fifo,
    Policy,
    Standard,
    StandardNumbers,
    UnitOfWork,
    Unordered,
    remembering,
    with_regions,
)
from seriatim.kernel.values.time import micros
from seriatim.pipeline.declared.pipeline import MOST_BUCKETS
from seriatim.pipeline.declared.queue import Queue
from seriatim.pipeline.declared.queue_parts import Group
from seriatim.spark.control.clock import controlled, observed
from seriatim.spark.frames.columns import (
    NESTED,
    check_columns,
    check_frame,
    columns,
    located,
    microseconds,
    quoted,
    type_of,
)
from seriatim.spark.resequence.bucket import Plan
from seriatim.spark.resequence.commands import in_buckets
from seriatim.spark.resequence.decided_packets import operator_schema
from seriatim.spark.resequence.first_numbers import first_numbers
from seriatim.spark.resequence.input_columns import BODY, Merge, OurColumns, arrival_of, compared, prepared
from seriatim.spark.resequence.left_out import LeftOut, counting
from seriatim.spark.resequence.number_columns import SHOWN, shown_of
from seriatim.spark.resequence.operator import CONTENT, KIND, NOW, Resequencer, resequence_to_the_end
from seriatim.spark.resequence.ordering import Ordering
from seriatim.spark.session.requirements import arrow_schema, make_ready, warn_of_empty_partitions
from seriatim.spark.stamp.stage import resting
from seriatim.spark.state.buckets import DEFAULT_BUCKETS, bucket_ids
from seriatim.spark.state.manifest import fingerprint
from seriatim.spark.state.packets import PACKET_SCHEMA, pack_by, unpack, with_witness
from seriatim.spark.state.state_layout import StateLayout

_BUCKET, _UNTIL = "__sq_bucket", "__sq_until"


@fields_apart(Queue)
def resequence(
    df: DataFrame,
    *,
    group: str | Group | None = None,
    sequence: str | numbers.Sequence | None = None,
    policy: Policy | None = None,
    compare: str | Sequence[str] | None = None,
    queues: Sequence[Queue] | None = None,
    destination: str = "destination",
    arrival: str | Sequence[str] | None = None,
    clock: Literal["processing", "event"] = "processing",
    time: str | None = None,
    watermark: float | str | None = None,
    start_from: DataFrame | None = None,
    output: Literal["released", "all"] = "released",
    buckets: int = DEFAULT_BUCKETS,
    finish: bool = False,
    invalid: str | None = None,
    void: str | None = None,
    region: str | None = None,
    message_id: str | Column | None = None,
    horizon: float | str | None = None,
) -> DataFrame:
    """Puts messages in order per group."""
    check_frame(df, "resequence")
    return put_in_order(
        df,
        Ordering(
            queues=_queues(group, sequence, policy, compare, queues),
            destination=None if queues is None else destination,
            arrival=arrival,
            clock=clock,
            time=time,
            watermark=watermark,
            start_from=start_from,
            output=output,
            finish=finish,
            invalid=invalid,
            void=void,
            region=region,
            message_id=message_id,
            horizon=horizon,
            layout=StateLayout(buckets=buckets),
        ),
    )


def put_in_order(df: DataFrame, ordering: Ordering) -> DataFrame:
    """Put a frame in order; see `resequence` for its result and its errors."""
    chosen, clock, time, output = ordering.queues, ordering.clock, ordering.time, ordering.output
    buckets, history = ordering.layout.buckets, ordering.layout.history
    _check_arguments(buckets, output)
    _check_clock(clock, time)
    forgets = any(queue.group.expire_to == "nothing" for queue in chosen)
    judged = tuple(queue.policy_of(None) for queue in chosen)
    said = {name for queue in chosen for name in shown_of(queue)}
    of_numbers = {name: f"_{name}" if ordering.packed else name for name in SHOWN if name in said}
    added = ["ordinal", "late", *of_numbers.values(), *(["incarnation"] if forgets else [])]
    check_columns(df, [*added, *(["disposition", "reason"] if output == "all" else [])])
    order = _arrival(df, ordering.arrival)
    merge = _merged(df, ordering.region, ordering.message_id, ordering.horizon)
    _check_order(chosen, order, merged=merge is not None)
    if ordering.horizon is not None and not any(isinstance(queue.policy, Fifo) for queue in chosen):
        with_regions(judged[0], ordering.horizon)  # which refuses other policies than Fifo
    if merge is not None and not ordering.packed:
        for one in judged:
            with_regions(one)
    queues = tuple(judged_here(queue, merged=merge is not None, horizon=ordering.horizon) for queue in chosen)
    if merge is None:
        _check_content(chosen, df)
    df = _watermarked(df, time, ordering.watermark) if time is not None and df.isStreaming else df
    of_queues = ordering.destination
    arrivals = arrival_of(df, order)
    # Batch frames have no state, and are always cut so.
    by_key = of_queues is not None and (ordering.layout.by_key or not df.isStreaming)
    columns = OurColumns(
        queues=chosen, time=time, void=ordering.void, buckets=buckets, bucket_column=_BUCKET, ties=not arrivals,
        by_key=by_key, merge=merge, arrival=order,
    )  # fmt: skip
    frame = prepared(df, columns, of_queues, ordering.invalid)
    plan = Plan(
        queues=queues,
        destination=of_queues,
        invalid=ordering.invalid,
        user=tuple(df.columns),
        clock=clock,
        arrivals=arrivals,
        output=output,
        reports=ordering.packed,
        fingerprint=fingerprint(chosen, buckets, clock, by_key=by_key, merged=merge is not None),
        buckets=buckets,
        history=history,
        by_key=by_key,
        moved=None if ordering.layout.moved is None else str(ordering.layout.moved),
        region=ordering.region,
        tickets=None if ordering.front is None else ordering.front.tickets,
        claims=ordering.claims,
        numbers=of_numbers,
    )
    user = _user_schema(df.schema, of_queues)
    shown = _output_schema(user, output, of_numbers, forgets=forgets)
    make_ready(df)
    if df.isStreaming:
        warn_of_empty_partitions(df.sparkSession, buckets)
        if ordering.front is None:
            packets = frame.mapInArrow(with_witness(pack_by(_BUCKET, bucket_ids(buckets))), PACKET_SCHEMA)
        else:
            packets = ordering.front.packets.select("bucket", "packet")
        return _streaming(user, packets, plan, shown, start=ordering.start_from, control=ordering.control)
    if time is not None:
        frame = frame.withColumn(_UNTIL, _end_of(df, time, ordering.watermark))
    return _static(frame, plan, shown, start=ordering.start_from, finish=ordering.finish)


def _queues(
    group: str | Group | None,
    sequence: str | numbers.Sequence | None,
    policy: Policy | None,
    compare: str | Sequence[str] | None,
    queues: Sequence[Queue] | None,
) -> list[Queue]:
    if queues is None:
        if policy is None:
            raise UsageError("the policy is missing", remedy="give policy=, or queues=")
        return [Queue("main", policy, group, sequence, compare=compare)]
    if policy is not None or group is not None or sequence is not None:
        raise UsageError(
            "queues= can't be combined with group=, sequence= and policy=", remedy="give either queues= or the others"
        )
    if compare is not None:
        raise UsageError("queues= can't be combined with compare=", remedy="give it to the queues: Queue(…, compare=…)")
    chosen = list(queues)
    if not chosen:
        raise UsageError("queues= is empty")
    seen: set[str] = set()
    for queue in chosen:
        if queue.name in seen:
            raise UsageError(f"two queues are named {queue.name!r}")
        seen.add(queue.name)
    return chosen


def judged_here(queue: Queue, *, merged: bool = False, horizon: float | str | None = None) -> Queue:
    """Return a queue in the form of the operator: its policy says whether messages open and close groups, and how many are remembered.
    Which messages these are, and what is compared of them, is in their rows already. `merged`: two regions send them.
    """
    policy = queue.policy_of(None)
    if merged and not isinstance(policy, Unordered):
        # The horizon is for those queues that have no numbers.
        policy = with_regions(policy, None if isinstance(policy, Standard) else horizon)
    policy = remembering(policy, 0)
    if policy is queue.policy:
        return queue
    return replace(
        queue,
        policy=policy,
        sequence=queue.numbered_by,
        group=replace(queue.group, opens=None, closes=None, unopened_timeout=None),
    )


def _merged(
    df: DataFrame, region: str | None, message_id: str | Column | None, horizon: float | str | None
) -> Merge | None:
    """The columns with the region and the id of a message; None: there is one region."""
    if region is None and message_id is None and horizon is None:
        return None
    if region is None or message_id is None:
        raise UsageError(
            "region= and message_id= belong together",
            remedy="name the column with the region, and the one with the id that a message has in both; or leave out both (and horizon)",
        )
    kind = type_of(df, region, "region")
    if not isinstance(kind, T.StringType):
        problem = f"a region is text, a or b, not a {kind.simpleString()}"
        raise ColumnError(problem, where=f"column {region!r}", remedy="merge() adds such a column")
    if isinstance(message_id, str):
        field, message_id = located(df, message_id, "message id")
        if isinstance(field.dataType, NESTED):
            problem = f"a message id can't be a {field.dataType.simpleString()}"
            raise ColumnError(problem, where=f"column {field.name!r}", remedy="name a field of it")
    return Merge(quoted(region), message_id)


def _check_arguments(buckets: object, output: str) -> None:
    if not is_whole(buckets, 1, MOST_BUCKETS):
        raise UsageError(f"buckets must be a whole number from 1 to {MOST_BUCKETS}, not {buckets!r}")
    if output not in ("released", "all"):
        raise UsageError(f'output must be "released" or "all", not {output!r}')


def _check_content(queues: Sequence[Queue], df: DataFrame) -> None:
    for queue in queues:
        if compared(queue) == (BODY,) and queue.compare is None and BODY not in df.columns:
            raise UsageError(
                "remember compares messages, and the frame doesn't say what their content is",
                where=f"queue {queue.name!r}",
                remedy=f"name the columns: compare=[…]; without it the column {BODY!r} is compared",
            )


def _check_clock(clock: str, time: str | None) -> None:
    if clock not in ("processing", "event"):
        raise UsageError(f'clock must be "processing" or "event", not {clock!r}')
    if (clock == "event") != (time is not None):
        raise UsageError(
            'clock="event" and time= belong together', remedy="name the column of the event time, or leave both out"
        )


def _arrival(df: DataFrame, arrival: str | Sequence[str] | None) -> list[str]:
    if arrival is None:
        ticket = next((field.dataType for field in df.schema if field.name == "ticket"), None)
        is_ticket = isinstance(ticket, T.StructType) and {"epoch", "number"} <= set(ticket.fieldNames())
        return ["ticket"] if is_ticket else []
    return [arrival] if isinstance(arrival, str) else list(arrival)


def _check_order(queues: Sequence[Queue], order: Sequence[str], *, merged: bool) -> None:
    for queue in queues:
        needs = _needs_order(queue, merged=merged)
        if needs and not order:
            raise UsageError(
                f"{needs} needs the order of arrival",
                where=f"queue {queue.name!r}",
                remedy="give arrival= with the columns of that order, or stamp the frame with tickets",
            )


def _needs_order(queue: Queue, *, merged: bool) -> str | None:
    """What of a queue goes by the order of arrival, in words; None: nothing."""
    policy = queue.policy
    if isinstance(policy, Standard) and policy.finds_start:
        return f'start="{policy.start}"'
    if numbers.by_position(policy):
        return 'by="position"'
    if isinstance(policy, UnitOfWork) and not policy.once:
        return "once=False"
    if isinstance(queue.policy_of(None), StandardNumbers | BestEffortNumbers):
        return f"Sequence({next(name for name in queue.says.says() if name != 'void')}=…)"
    # Messages of two regions may have no common order of arrival but that of the batches.
    if isinstance(policy, Fifo):
        return None if merged else "fifo"
    return "a group that messages open or close" if isinstance(policy, Standard) and queue.has_stays else None


def _watermarked(df: DataFrame, time: str, watermark: float | str | None) -> DataFrame:
    field = next((field for field in df.schema if field.name == time), None)
    if field is None:
        return df  # refused later, together with the present columns
    if "spark.watermarkDelayMs" in (field.metadata or {}):
        if watermark is not None:
            raise UsageError(f"column {time!r} has a watermark already", remedy="leave watermark= out")
        return df
    if not isinstance(field.dataType, T.TimestampType | T.TimestampNTZType):
        raise ColumnError(
            f"an event time can't be a {field.dataType.simpleString()}",
            where=f"column {time!r}",
            remedy="cast it to a timestamp",
        )
    return df.withWatermark(time, f"{micros(watermark or 0)} microseconds")


def _end_of(df: DataFrame, time: str, watermark: float | str | None) -> Column:
    kind = next(field.dataType for field in df.schema if field.name == time)
    latest = df.agg(F.max(microseconds(kind, F.col(f"`{time}`"), time, "event time"))).scalar()
    return latest - F.lit(micros(watermark or 0))


def _user_schema(schema: T.StructType, destination: str | None) -> T.StructType:
    """The user's columns, with one destination per row."""
    fields = [
        T.StructField(f.name, T.StringType() if f.name == destination else f.dataType, f.nullable, f.metadata)
        for f in schema
    ]
    return T.StructType(fields)


def _output_schema(schema: T.StructType, output: str, of_numbers: Mapping[str, str], *, forgets: bool) -> T.StructType:
    ours: dict[str, T.DataType] = {"ordinal": T.LongType(), "late": T.BooleanType()}
    ours |= {column: SHOWN[name] for name, column in of_numbers.items()}
    ours |= {"incarnation": T.LongType()} if forgets else {}
    ours |= {"disposition": T.StringType(), "reason": T.StringType()} if output == "all" else {}
    nullable = [T.StructField(f.name, f.dataType, True, f.metadata) for f in schema]
    return T.StructType([*nullable, *columns(**ours)])


def _streaming(
    user: T.StructType,
    packets: DataFrame,
    plan: Plan,
    shown: T.StructType,
    *,
    start: DataFrame | None,
    control: Path | None,
) -> DataFrame:
    session, buckets, live = packets.sparkSession, plan.buckets, plan.clock == "processing"
    packets = packets.withColumns({name: F.lit(None).cast("string") for name in (KIND, CONTENT)})
    # By the event clock and without clocks, too: the sources of a query can't change between starts.
    source, rows = controlled(session, buckets, ticks=plan.has_clocks, log=control)
    rows = rows if control is None else in_buckets(rows, buckets, by_key=plan.by_key)
    if plan.tickets is not None:  # a query always has the same operators
        rows = resting(rows)
    packets = packets.unionByName(rows, allowMissingColumns=True)
    # The batch's time, which is in Spark's offset log: the same for data and ticks, and when the batch runs again.
    packets = packets.withColumn(NOW, F.unix_micros(F.current_timestamp()))
    schema = arrow_schema(session, user)
    initial = None
    if start is not None:
        first = first_numbers(start, plan.queues, buckets, several=plan.destination is not None, by_key=plan.by_key)
        initial = first.groupBy("bucket")
    decided = packets.groupBy("bucket").transformWithStateInPandas(
        statefulProcessor=Resequencer(plan, schema),
        outputStructType=operator_schema(shown),
        outputMode="Append",
        # Timers of Spark's own processing clock would need a batch at every trigger, so the control source wakes the operator.
        timeMode="None" if live else "EventTime",
        initialState=initial,
    )
    decided = observed(decided, source) if plan.ticks else decided
    return decided.select("packet", "report") if plan.reports else decided.mapInArrow(unpack, shown)


def _static(frame: DataFrame, plan: Plan, shown: T.StructType, *, start: DataFrame | None, finish: bool) -> DataFrame:
    buckets, several = plan.buckets, plan.destination is not None
    packets = frame.mapInArrow(pack_by(_BUCKET, bucket_ids(buckets)), PACKET_SCHEMA).withColumn("first", F.lit(False))
    if start is not None:
        first = first_numbers(start, plan.queues, buckets, several=several, by_key=plan.by_key).withColumn(
            "first", F.lit(True)
        )
        packets = packets.unionByName(first)
    until = _UNTIL if plan.clock == "event" else None
    static = None
    if plan.output == "released":
        static = counting(frame.sparkSession, LeftOut(plan.queues, several, buckets, finish))
    operator = resequence_to_the_end(plan, until, finish=finish, left_out=static)
    return packets.repartition(buckets, "bucket").mapInArrow(operator, shown)
