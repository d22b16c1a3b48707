"""Receiving: any source of Spark becomes a frame with one row per message.

This module owns the frame's shape. Rows are found, named and counted by `text_files.py` (text) and `tables.py`
(columns); group and sequence are handled by the operator. Rows that can't be read at all are marked, with
file, line and reason, and stop nothing else.

The frame's columns, besides the promoted properties:

=============  =========  ================================================================================
message_id     string     ``location/file:line``, or the columns of a source's `id`: ``location/topic:0:17``;
                          the same on every replay (see *Naming*); of the second part of a message ``….2``; of a
                          location with two regions ``location/region/…``
type           string     the promoted property of that name, else null
location       string
received_at    timestamp  when the file was last written: the same on every replay; null without a file
body           binary     the body as it arrived: the line without its end, a whole file, a part as it was cut
                          out; for a row with columns the column that `body` names, or the whole row as JSON
_invalid       string     the reason why the row is no message; null for a message
_file          string     the file, relative to the location's folder; else the ids, in a form that sorts
_position      long       increasing within a file
parent_id      string     of a part: the message that it was cut from
part           long       1, 2, 3 …: the number of the part
parts          long       the number of parts
=============  =========  ================================================================================

The last three exist if a message of any location may become several: by `split`, or because an update moves its row to
another group (`envelopes/moves.py`). They are null for a message that stays one.

`arrival` names the columns that order all rows of a micro-batch: files by time of writing and then by name, rows by
place, parts as they stand in their message. Between micro-batches Spark takes files by time of writing, and files of
the same millisecond in any order.

*Naming.* Spark cuts large text files into blocks, and only a block knows its rows. A row's line counts
from the start of its block, whose first byte is named where it isn't 0: ``crm/big.json@33554432:7``. Blocks
are cut alike on a replay because the settings for it stay with the checkpoint (`session.SPLITTING`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from seriatim.errors import UsageError
from seriatim.pipeline.bodies.envelopes.registry import has_parts
from seriatim.pipeline.declared.pipeline import REGION, Pipeline, Receive
from seriatim.spark.calls.register import Calling
from seriatim.spark.frames.columns import quoted
from seriatim.spark.frames.property_types import ddl_of
from seriatim.spark.receive.body_reader import PARTS
from seriatim.spark.receive.tables import read_parquet, read_source
from seriatim.spark.receive.text_files import Receiving, read_files

_UNNOTED = Calling()
#: The columns that give the order of arrival of a micro-batch's messages, where none was split; total.
ARRIVAL = ("received_at", "location", "_file", "_position")


def receive(spark: SparkSession, pipeline: Pipeline, *, static: bool = False, calling: Calling = _UNNOTED) -> DataFrame:
    """All locations of a pipeline as one frame, with the columns of this module's docstring."""
    how = Receiving.of(spark, pipeline, calling, static=static)
    names = {**promoted(pipeline.receive), **(PARTS if has_parts(pipeline.receive) else {})}
    return reduce(DataFrame.unionByName, [_location(how, entry, names) for entry in pipeline.receive])


def arrival(pipeline: Pipeline) -> tuple[str, ...]:
    """The columns of the order of arrival within a micro-batch of this pipeline; a total order."""
    regions = (REGION,) if pipeline.merges else ()
    return (*ARRIVAL, *regions, *(("part",) if has_parts(pipeline.receive) else ()))


def identity(pipeline: Pipeline) -> Column:
    """The id of a message that two regions send, as its location names it; of a part with its number."""
    column = F.lit(None).cast("string")
    for entry in pipeline.receive:
        named = quoted(entry.message_id or "message_id").cast("string")
        here = (F.col("location") == entry.location) & (F.col(REGION) == entry.region)
        column = F.when(here, named).otherwise(column)
    if not has_parts(pipeline.receive):
        return column
    return F.when(F.col("part").isNull(), column).otherwise(F.concat(column, F.lit("."), F.col("part").cast("string")))


def promoted(received: Collection[Receive]) -> dict[str, str]:
    """Return every promoted property and its Spark type, in the order of their first mention; without ``type``. Where two regions send the
    messages, `REGION` is one.
    """
    columns: dict[str, str] = {}
    if any(entry.region is not None for entry in received):
        columns[REGION] = "string"
    for entry in received:
        for item in entry.promote:
            ddl = ddl_of(item.type)
            if item.name != "type" and columns.setdefault(item.name, ddl) != ddl:
                raise UsageError(f"{item.name} is {columns[item.name]} at one location and {ddl} at another")
    return columns


def _location(how: Receiving, entry: Receive, names: Mapping[str, str]) -> DataFrame:
    location, entry = entry.location, replace(entry, location=entry.title)
    match entry.source.kind:
        case "json" | "csv" | "text" | "xml":
            frame = read_files(how, entry)
        case "parquet":
            frame = read_parquet(how, entry)
        case _:
            frame = read_source(how, entry)
    for name in ("type", *names):
        if name not in frame.columns:
            frame = frame.withColumn(name, F.lit(None).cast(names.get(name, "string")))
    if entry.region is not None:
        frame = frame.withColumn(REGION, F.lit(entry.region))
    properties = [name for name in names if name not in PARTS]
    parts = [name for name in names if name in PARTS]
    return frame.select(
        "message_id", "type", F.lit(location).alias("location"), "received_at", *properties, "body", "_invalid",
        "_file", "_position", *parts,
    )  # fmt: skip
