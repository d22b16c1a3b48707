"""Process: call the user's code with the messages of a pipeline, before ``route`` or under its destinations.

This module owns the columns, and the one crossing to Python that all functions of a place share; `step.py` makes the
calls. From here on, a pipeline with user code has all columns that any of its functions returns, and ``_outputs``; see
`step.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from seriatim.errors import UsageError
from seriatim.pipeline.bodies.envelopes.registry import has_parts
from seriatim.pipeline.declared.function import Function, search_folders
from seriatim.pipeline.declared.pipeline import REGION, Pipeline, Process
from seriatim.spark.calls.register import Calling
from seriatim.spark.frames.property_types import arrow_type, ddl_of
from seriatim.spark.process.step import OUTPUTS, WAS, Step, outputs_type, run_step
from seriatim.spark.receive.stage import promoted

_BODY = {"body": "binary"}
#: The columns of every message, before and after its properties.
_MESSAGE = {
    "message_id": pa.string(),
    "type": pa.string(),
    "location": pa.string(),
    "received_at": pa.timestamp("us", "UTC"),
}
_PLACE = {
    "body": pa.binary(),
    "_invalid": pa.string(),
    "_file": pa.string(),
    "_position": pa.int64(),
    "ticket": pa.struct([("location", pa.string()), ("epoch", pa.int64()), ("number", pa.int64())]),
}
_UNNOTED = Calling()


def process(df: DataFrame, pipeline: Pipeline, *, routed: bool = False, calling: Calling = _UNNOTED) -> DataFrame:
    """Messages after the user's code at one place of a pipeline."""
    steps = _declared(pipeline)
    if not steps:
        return df
    columns = _returned(steps)
    hidden = _not_yet(df, pipeline, columns, routed=routed)
    df = _with_columns(df, columns)
    retyped = _retyped(df, columns)
    here = [(route.queue.name, route.process) for route in pipeline.route] if routed else [(None, pipeline.process)]
    folders = search_folders(pipeline.source_file)
    work = _Work(
        tuple(_step(declared, destination, folders, hidden) for destination, declared in here if declared is not None),
        calling,
    )
    if retyped and (routed or pipeline.process is None):
        name, kind = next(iter(retyped.items()))
        problem = f"{name} can't become {kind.simpleString()} under a destination"
        raise UsageError(
            problem, remedy="a column must have one type at all destinations: return it under another name"
        )
    if not work.steps:
        return df
    was = {f"{WAS}{name}": F.col(name).try_cast(kind) for name, kind in retyped.items()}
    fields = [T.StructField(f.name, retyped.get(f.name, f.dataType), True, f.metadata) for f in df.schema]
    return df.withColumns(was).mapInArrow(work.__call__, T.StructType(fields))


def process_here(
    messages: Sequence[Mapping[str, Any]], pipeline: Pipeline, *, destination: str | None = None
) -> list[dict[str, Any]]:
    """A few messages after the user's code at one place of a pipeline, outside of Spark; each call is made in a process of its own."""
    steps = _declared(pipeline)
    columns = {name: _arrow(name, kind) for step in steps for name, kind in step.returns.items()}
    kinds = {item.name: arrow_type(item.type) for entry in pipeline.receive for item in entry.promote}
    if pipeline.merges:
        kinds[REGION] = pa.string()
    own = {**_MESSAGE, **{name: kind for name, kind in kinds.items() if name != "type"}, **_PLACE}
    if has_parts(pipeline.receive):
        own |= {"parent_id": pa.string(), "part": pa.int64(), "parts": pa.int64()}
    if destination is not None:
        own["destination"] = pa.string()
    before = frozenset(own)
    if destination is not None and pipeline.process is not None:
        before |= pipeline.process.returns.keys()
    for name, kind in columns.items():
        if own.setdefault(name, kind) != kind:
            raise UsageError(f"{name} is returned in another type than it was promoted in", where="process")
    values = [{**message, "destination": destination} for message in messages]
    table = pa.table({name: pa.array([row.get(name) for row in values], kind) for name, kind in own.items()})
    table = table.append_column(OUTPUTS, pa.nulls(len(values), outputs_type(columns or {"body": pa.binary()})))
    here = [pipeline.process]
    if destination is not None:
        here = [route.process for route in pipeline.route if route.queue.name == destination]
    for declared in here:
        if declared is not None:
            step = _step(declared, destination, search_folders(pipeline.source_file), frozenset(columns) - before)
            calling = Calling(apart=True).of(step.function.name, destination)
            table = run_step(table, step, step.function.load(), calling)
    return [dict(row) for row in table.to_pylist()]


def properties(pipeline: Pipeline) -> dict[str, str]:
    """The properties of delivered messages: every promoted or returned property, and its Spark type."""
    columns = promoted(pipeline.receive) | _returned(_declared(pipeline))
    return {name: kind for name, kind in columns.items() if name not in {"body", "type"}}


def _declared(pipeline: Pipeline) -> list[Process]:
    """All user code, in the order of execution."""
    return [route for route in (pipeline.process, *(step.process for step in pipeline.route)) if route is not None]


def _returned(steps: Iterable[Process]) -> dict[str, str]:
    """Every column that any function returns, and its Spark type; a body is always binary."""
    columns: dict[str, str] = {}
    for step in steps:
        for name, kind in step.returns.items():
            ddl = "binary" if name == "body" else ddl_of(kind)
            if columns.setdefault(name, ddl) != ddl:
                raise UsageError(
                    f"{name} is returned as {columns[name]} and as {ddl}", where=f"process {step.function}"
                )
    return columns


def _arrow(name: str, kind: str) -> pa.DataType:
    return pa.binary() if name == "body" else arrow_type(kind)


def _step(declared: Process, destination: str | None, folders: tuple[str, ...], hidden: frozenset[str]) -> Step:
    returns = {name: _arrow(name, kind) for name, kind in declared.returns.items()}
    return Step(Function(declared.function, folders), returns, declared.on_error, destination, hidden)


def _not_yet(df: DataFrame, pipeline: Pipeline, columns: Mapping[str, str], *, routed: bool) -> frozenset[str]:
    """The returned columns that messages don't have yet when the code of this place runs."""
    if not routed:
        return frozenset(columns) - frozenset(df.columns)
    before = {"body", "type"} | promoted(pipeline.receive).keys()
    return frozenset(columns) - before - (pipeline.process.returns.keys() if pipeline.process is not None else set())


def _with_columns(df: DataFrame, columns: Mapping[str, str]) -> DataFrame:
    lacking = {name: F.lit(None).cast(kind) for name, kind in columns.items() if name not in df.columns}
    if OUTPUTS not in df.columns:
        # Code that returns only ids may still make several messages of one: each of them has its body.
        fields = ", ".join(f"`{name}`: {kind}" for name, kind in (columns or _BODY).items())
        lacking[OUTPUTS] = F.lit(None).cast(f"array<struct<{fields}>>")
    return df.withColumns(lacking)


def _retyped(df: DataFrame, columns: Mapping[str, str]) -> dict[str, T.DataType]:
    """Promoted properties that the code before ``route`` returns in another type."""
    if not columns:
        return {}
    wanted = cast("T.StructType", T.StructType.fromDDL(", ".join(f"`{name}` {kind}" for name, kind in columns.items())))
    return {field.name: field.dataType for field in wanted.fields if df.schema[field.name].dataType != field.dataType}


@dataclass(frozen=True, slots=True)
class _Work:
    """A worker's work: one step after another, batch by batch."""

    steps: tuple[Step, ...]
    calling: Calling

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        calling = self.calling.here()
        loaded = [(step, step.function.load(), calling.of(step.function.name, step.destination)) for step in self.steps]
        for batch in batches:
            if not batch.num_rows:
                continue
            table = pa.Table.from_batches([batch])
            for step, apply, how in loaded:
                table = run_step(table, step, apply, how)
            yield from table.to_batches()


def spread(df: DataFrame) -> DataFrame:
    """Return a row for each output, as it is delivered; without user code every row unchanged. Call it after group and sequence have been
    computed: they are those of the message, and its outputs may have others.
    """
    if OUTPUTS not in df.columns:
        return df.withColumn("_output", F.lit(1))
    size = F.coalesce(F.size(OUTPUTS), F.lit(-1))
    consumed = (size == 0) & F.coalesce(F.col("disposition") == "released", F.lit(False))
    numbers = F.when(consumed, F.array(F.lit(0))).otherwise(F.sequence(F.lit(1), F.greatest(size, F.lit(1))))
    rows = df.withColumn("_output", F.explode(numbers))
    several = size > 0
    element = F.get(OUTPUTS, F.col("_output") - 1)
    kind = df.schema[OUTPUTS].dataType.elementType  # type: ignore[attr-defined]
    own = {name: F.when(several, element[name]).otherwise(F.col(f"`{name}`")) for name in kind.names}
    number = F.concat(F.col("message_id"), F.lit("."), F.col("_output").cast("string"))
    return rows.withColumns({**own, "message_id": F.when(several, number).otherwise(F.col("message_id"))}).drop(OUTPUTS)
