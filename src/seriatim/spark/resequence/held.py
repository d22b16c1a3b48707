"""`held`: the messages that wait in a checkpoint, as a frame.

Reads the state that the last committed batch left behind, with Spark's own reader; the query may run meanwhile. Nothing is
changed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from seriatim.errors import NotFound, UsageError
from seriatim.kernel.groups.numbers import by_position
from seriatim.kernel.groups.policy import Fifo, Policy, Standard, StandardNumbers, UnitOfWork, policy_from, with_stays
from seriatim.kernel.groups.state import NOTHING
from seriatim.kernel.operators.held_groups import held_groups
from seriatim.kernel.resequence import why_held
from seriatim.kernel.values.outcome import REASONS, Reason
from seriatim.kernel.values.time import NEVER
from seriatim.spark.session.requirements import arrow_schema, use_this_python
from seriatim.spark.session.versions import spark_schema
from seriatim.spark.state.group_index import Index, QueueState
from seriatim.spark.state.held_bodies import chunk_of, places_in, row_of
from seriatim.spark.state.packets import InArrow, from_bytes

_PLACE = {"__sq_bucket": T.IntegerType(), "__sq_chunk": T.LongType(), "__sq_row": T.LongType()}
_ARROW = pa.schema(
    [
        ("destination", pa.string()),
        ("group", pa.string()),
        ("sequence", pa.int64()),
        ("late", pa.bool_()),
        ("reason", pa.string()),
        ("missing_first", pa.int64()),
        ("missing_last", pa.int64()),
        ("since", pa.timestamp("us", "UTC")),
        ("__sq_bucket", pa.int32()),
        ("__sq_chunk", pa.int64()),
        ("__sq_row", pa.int64()),
    ]
)


def held(checkpoint: str | Path, *, messages: bool = False, spark: SparkSession | None = None) -> DataFrame:
    """Return the messages that wait in a checkpoint, each with the reason of its group."""
    session = spark or SparkSession.getActiveSession()
    if session is None:
        raise UsageError("there is no Spark session", remedy="make one, or give spark=")
    use_this_python(session)
    place = place_of(checkpoint)
    frames = [_held_by(session, place, operator, messages=messages) for operator in operators(session, place)]
    if not frames:
        raise UsageError("the checkpoint has no state of resequence", where=place)
    return reduce(lambda frame, other: frame.unionByName(other, allowMissingColumns=True), frames)


def place_of(checkpoint: str | Path) -> str:
    text = str(checkpoint)
    if "://" in text:
        return text
    root = Path(text)
    for folder in (root / "query", root):
        if (folder / "state").is_dir():
            return str(folder.absolute())
    raise NotFound(
        "there is no checkpoint with a committed batch", where=text, remedy="name the folder of a pipeline that has run"
    )


def operators(session: SparkSession, place: str) -> list[int]:
    try:
        variables = variables_of(session, place)
    except PySparkException as error:
        raise UsageError(f"the checkpoint can't be read: {str(error).splitlines()[0]}", where=place) from error
    return sorted(operator for operator, names in variables.items() if {"index", "bodies"} <= names)


def variables_of(session: SparkSession, place: str) -> dict[int, set[str]]:
    rows = session.read.format("state-metadata").load(place).select("operatorId", "operatorProperties").collect()
    told = ((operator, json.loads(properties or "{}")) for operator, properties in rows)
    return {operator: {one["stateName"] for one in found.get("stateVariables", [])} for operator, found in told}


def state_variable(session: SparkSession, place: str, operator: int, name: str) -> DataFrame:
    reader = session.read.format("statestore").option("operatorId", operator).option("stateVarName", name)
    return reader.load(place)


def _held_by(session: SparkSession, place: str, operator: int, *, messages: bool) -> DataFrame:
    index = (
        state_variable(session, place, operator, "index")
        .where("key.bucket >= 0")
        .select(F.col("key.bucket").alias("bucket"), F.col("value.value").alias("value"))
    )
    frame = index.mapInArrow(_rows, spark_schema(_ARROW))
    if messages:
        # Below 0 are groups that have expired.
        chunks = (
            state_variable(session, place, operator, "bodies")
            .where("user_map_key.chunk >= 0")
            .select(
                F.col("key.bucket").alias("bucket"),
                F.col("user_map_key.chunk").alias("chunk"),
                F.col("user_map_value.packet").alias("packet"),
            )
        )
        frame = frame.join(_messages(session, chunks), [*_PLACE], "left")
    return frame.drop(*_PLACE)


def _rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for bucket, value in zip(*(batch.column(name).to_pylist() for name in ("bucket", "value")), strict=True):
            index = Index.from_bytes(value, None)
            declared = json.loads(index.fingerprint)["queues"]
            for name, queue in index.queues.items():
                if len(queue.state.held.messages()):
                    policy = _policy(declared[name], index.steps.get(name, 1))
                    yield _rows_of(bucket, name, policy, queue)


def _policy(declared: Mapping[str, Any], step: int) -> Policy:
    """A policy of a kind, with the parameters that matter for held messages."""
    name = declared["policy"]
    numbers = dict(declared.get("numbers", {}))
    if name == UnitOfWork.name:
        return UnitOfWork(size="size", start=numbers.get("start", 1))
    policy = policy_from(name, **({"by": "position"} if "by" in numbers else {}))
    if isinstance(policy, Standard):
        if numbers:
            start = numbers.pop("start") or 1
            return StandardNumbers(start=start, settle=1 if start == "lowest" else None, increment=step, **numbers)
        policy = Standard(increment=step)
    stays = declared.get("by messages", ())
    return with_stays(policy, opens="opens" in stays, closes="closes" in stays)


def _rows_of(bucket: int, name: str, policy: Policy, queue: QueueState) -> pa.RecordBatch:
    messages = queue.state.held.weight > 0
    held_, groups = queue.state.held.take(messages), held_groups(policy, queue.state)
    count = len(held_)
    at = np.searchsorted(groups.group, held_.group)

    def known(values: np.ndarray, none: int, kind: pa.DataType) -> pa.Array:
        return pa.array(values[at], pa.int64(), mask=values[at] == none).cast(kind)

    reasons, which = np.unique(why_held(policy, queue.state)[messages], return_inverse=True)
    columns = [
        pa.array([name] * count, pa.string()),
        queue.keys.take(pa.array(held_.group)).cast(pa.string()),
        pa.array(held_.sequence, mask=np.full(count, isinstance(policy, Fifo) or by_position(policy))),
        pa.array(held_.late & ~held_.waits),
        pa.array([REASONS[Reason(reason)] for reason in reasons], pa.string()).take(pa.array(which)),
        known(groups.first, NOTHING, pa.int64()),
        known(groups.last, NOTHING, pa.int64()),
        known(groups.since, NEVER, pa.timestamp("us", "UTC")),
        pa.array(np.full(count, bucket, np.int32)),
        pa.array(chunk_of(held_.ref)),
        pa.array(row_of(held_.ref)),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_ARROW)


def _messages(session: SparkSession, chunks: DataFrame) -> DataFrame:
    """The held messages, by their places; as the newest chunk has their columns."""
    newest = chunks.orderBy(F.col("chunk").desc()).limit(1).collect()
    message: T.DataType = T.NullType()
    if newest:
        columns = spark_schema(places_in(from_bytes(bytes(newest[0].packet)))[0].schema)
        message = T.StructType([T.StructField(field.name, field.dataType, True) for field in columns])
    shown = T.StructType([T.StructField(name, kind) for name, kind in {**_PLACE, "message": message}.items()])
    if not newest:
        return session.createDataFrame([], shown)
    return chunks.mapInArrow(_opening(arrow_schema(session, shown)), shown)


def _opening(schema: bytes) -> InArrow:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        fields = pa.ipc.read_schema(pa.py_buffer(schema))
        kind = fields.field("message").type
        for batch in batches:
            for row in batch.to_pylist():
                bodies, places = places_in(from_bytes(row["packet"]))
                table = (bodies if places is None else bodies.take(pa.array(places))).combine_chunks()
                count = table.num_rows
                columns = [
                    (
                        table.column(row.name).combine_chunks() if row.name in table.column_names else pa.nulls(count)
                    ).cast(row.type)
                    for row in kind
                ]
                yield pa.RecordBatch.from_arrays(
                    [
                        pa.array(np.full(count, row["bucket"], np.int32)),
                        pa.array(np.full(count, row["chunk"], np.int64)),
                        pa.array(np.arange(count)),
                        pa.StructArray.from_arrays(columns, fields=list(kind)),
                    ],
                    schema=fields,
                )

    return run
