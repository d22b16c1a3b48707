"""Decided messages between the operator and the ports: in packets, which only the workers open.

Every crossing from Python to Spark and back costs more than putting a message in order. So messages that need no
Spark expression go from the packet straight into their file; see `deliver/stage.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import types as T

from seriatim.kernel.groups.policy import Unordered
from seriatim.pipeline.declared.queue import Queue
from seriatim.spark.control.due import BIT, DUE, SLOT
from seriatim.spark.frames.columns import columns
from seriatim.spark.session.requirements import arrow_schema
from seriatim.spark.state.packets import InArrow, unpack

#: The queue of messages that match no destination: they pass the operator like all others, so that the frame runs once. No pipeline
#: file can use this name.
NOWHERE = Queue("\x1fnowhere", Unordered())

_ROWS = "seriatim.rows"


def operator_schema(rows: T.StructType) -> T.StructType:
    """The schema of the operator's output: packets of such rows, reports, and when something is due again in a slot."""
    packet = T.StructField("packet", T.BinaryType(), True, {_ROWS: rows.json()})
    due = {name: T.LongType() for name in (SLOT, BIT, DUE)}
    return T.StructType([packet, *columns(report=T.StringType(), **due)])


def rows_of(frame: DataFrame) -> T.StructType | None:
    """The schema of the rows in a frame's packets; None if it is a frame of rows itself."""
    rows = next((field.metadata.get(_ROWS) for field in frame.schema if field.name == "packet"), None)
    return None if rows is None else T.StructType.fromJson(json.loads(rows))


def opened(frame: DataFrame, rows: T.StructType) -> InArrow:
    """The rows of a frame of packets. A message without a destination has null for it, and the disposition ``unrouted`` instead of
    ``released``. The reports come as `telling` rows.
    """
    schema = arrow_schema(frame.sparkSession, rows)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        fields = pa.ipc.read_schema(pa.py_buffer(schema))
        for batch in batches:
            # A stream has one schema: the packets' columns may be marked as never null, the reports' columns can't.
            for part in unpack([batch]):
                yield _unrouted(pa.RecordBatch.from_arrays(part.columns, schema=fields))
            reports = batch.column("report").drop_null()
            if len(reports):
                yield telling(reports, fields)

    return run


def telling(texts: pa.Array, fields: pa.Schema) -> pa.RecordBatch:
    """Rows for texts among messages: all columns but ``reason`` are null."""
    columns = [texts if field.name == "reason" else pa.nulls(len(texts), field.type) for field in fields]
    return pa.RecordBatch.from_arrays(columns, schema=fields)


def _unrouted(rows: pa.RecordBatch) -> pa.RecordBatch:
    nowhere = pc.fill_null(pc.equal(rows.column("destination"), NOWHERE.name), False)
    if not pc.any(nowhere).as_py():
        return rows
    disposition = rows.column("disposition")
    left = pc.and_(nowhere, pc.equal(disposition, "released"))
    rows = _put(rows, "disposition", pc.if_else(left, "unrouted", disposition))
    return _put(rows, "destination", pc.if_else(nowhere, pa.scalar(None, pa.string()), rows.column("destination")))


def _put(rows: pa.RecordBatch, name: str, values: pa.Array) -> pa.RecordBatch:
    place = rows.schema.get_field_index(name)
    return rows.set_column(place, rows.schema.field(place), values)
