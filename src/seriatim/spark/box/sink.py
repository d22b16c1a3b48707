"""Write into a message box: each micro-batch once, each task's rows as a part of it.

Tasks stage parts under the query's id and the batch's number; the driver merges the parts that Spark names for the
batch. The box stores the parts and recognises repeated batches (its *staging*).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from typing import Protocol

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import types as T
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from seriatim.errors import ColumnError
from seriatim.pipeline.types.box_properties import OWN
from seriatim.pipeline.types.origin import ORIGIN
from seriatim.pipeline.types.sent_by import LINK
from seriatim.spark.box.opening import Opening, Side

_TEXT = (T.StringType, T.BinaryType)
#: The columns that aren't properties, and the types that they can be of.
_FIELDS: dict[str, tuple[type[T.DataType], ...]] = {
    "message_id": (T.StringType,),
    "type": (T.StringType,),
    "body": _TEXT,
    "content_type": (T.StringType,),
    "context": (T.StringType,),
    "location": (T.StringType,),
}
_PROPERTIES = (
    T.StringType, T.ByteType, T.ShortType, T.IntegerType, T.LongType, T.FloatType, T.DoubleType, T.DecimalType,
    T.BooleanType, T.TimestampType, T.TimestampNTZType,
)  # fmt: skip
_KEYS = (T.StringType, T.ByteType, T.ShortType, T.IntegerType, T.LongType)
#: The fields that the box gives; a frame that was read from one has them.
_GIVEN = frozenset({"ticket", "epoch", "received_at", *ORIGIN, *LINK})
#: All names that mean something to a box, by themselves in small letters.
_OURS = {name.lower(): name for name in (*_FIELDS, *_GIVEN, *OWN)}


class Staging(Side, Protocol):
    """The box's side of writing. A part is (its id, its number of messages)."""

    def stage(self, writer: str, batch: int, rows: Iterable[pa.RecordBatch], number: int = 0) -> tuple[int, int]:
        """Stage a part of a batch, with this number."""

    def merge(self, writer: str, batch: int, parts: Sequence[tuple[int, int]]) -> int:
        """Publish the parts of a batch, unless the box has the batch already."""

    def discard(self, parts: Iterable[tuple[int, int]]) -> None:
        """Delete parts that aren't merged."""


@dataclass(frozen=True, slots=True)
class _Staged(WriterCommitMessage):
    """A task's message to the driver; `part` is None if it had no rows."""

    writer: str
    partition: int
    part: tuple[int, int] | None


def check_columns(schema: T.StructType, group: str | None, sequence: str | None, dialog_by: str | None = None) -> None:
    """Refuse a frame whose columns can't be those of messages."""
    for name, role in ((group, "group"), (sequence, "sequence"), (dialog_by, "key of dialogs")):
        if name is not None and name not in schema.names:
            raise ColumnError(
                f"there is no such column for the {role}",
                where=f"column {name!r}",
                remedy=f"the frame has {', '.join(schema.names)}",
            )
    for field in schema:
        where = f"column {field.name!r}"
        _check_name(field.name, where, is_named=field.name in (group, sequence, dialog_by))
        if field.name == "parts" and isinstance(field.dataType, T.ArrayType):
            if dialog_by is not None:
                raise ColumnError("messages of dialogs have no parts", where=where, remedy="drop it")
            _check_parts(field.dataType)
            continue
        if field.name == dialog_by:
            fitting: tuple[type[T.DataType], ...] = _KEYS
        elif field.name in (group, sequence):
            fitting = (T.StringType,) if field.name == group else (T.LongType,)
        else:
            fitting = _FIELDS.get(field.name, _PROPERTIES)
        if not isinstance(field.dataType, fitting):
            known = ", ".join(kind.typeName() for kind in fitting)
            raise ColumnError(f"it can't be {field.dataType.simpleString()}", where=where, remedy=f"cast it to {known}")


def _check_name(name: str, where: str, *, is_named: bool) -> None:
    """Refuse columns that the box sets, and names that differ from ours in capitals only; `is_named`: an option names the column."""
    if name in _GIVEN:
        raise ColumnError(
            "the box sets this property itself", where=where, remedy="drop it, or rename it to keep it as a property"
        )
    meant = _OURS.get(name.lower(), name)
    if meant != name and not is_named:
        problem = f"it differs from {meant!r} by capitals only, which Spark doesn't tell apart"
        raise ColumnError(problem, where=where, remedy=f"name it {meant!r}, or otherwise")


def _check_parts(array: T.ArrayType) -> None:
    """Refuse parts that aren't structs of a name, a body and optionally a content type."""
    element = array.elementType
    kinds = {field.name: field.dataType for field in element} if isinstance(element, T.StructType) else {}
    fitting = {"name": (T.StringType,), "content_type": (T.StringType,), "body": _TEXT}
    if not {"name", "body"} <= kinds.keys() <= fitting.keys() or not all(
        isinstance(kind, fitting[name]) for name, kind in kinds.items()
    ):
        raise ColumnError(
            f"it can't be {array.simpleString()}",
            where="column 'parts'",
            remedy="make it array<struct<name string, content_type string, body binary>>",
        )


def _stage(
    opening: Opening[Staging], writer: str, batch: int, rows: Iterator[pa.RecordBatch], context: TaskContext
) -> _Staged:
    first = next((batch for batch in rows if len(batch)), None)
    if first is None:
        return _Staged(writer, context.partitionId(), None)
    with opening.kept() as staging:
        part = staging.stage(writer, batch, chain([first], rows), context.partitionId())
    return _Staged(writer, context.partitionId(), part)


def _parts(messages: Iterable[WriterCommitMessage | None]) -> list[tuple[int, int]]:
    staged = [message for message in messages if isinstance(message, _Staged)]
    return [
        message.part for message in sorted(staged, key=lambda message: message.partition) if message.part is not None
    ]


def _context() -> TaskContext:
    context = TaskContext.get()
    if context is None:
        raise RuntimeError("parts are staged in a Spark task")
    return context


@dataclass(eq=False)
class BoxStreamWriter(DataSourceStreamArrowWriter):
    """Write the micro-batches of a query, each once."""

    opening: Opening[Staging]

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = _context()
        writer = f"query {context.getLocalProperty('sql.streaming.queryId')}"
        batch = int(context.getLocalProperty("streaming.sql.batchId") or 0)
        return _stage(self.opening, writer, batch, iterator, context)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 -- Spark's name
        """Publish the batch, unless the box has it already."""
        if parts := _parts(messages):
            writer = next(message.writer for message in messages if isinstance(message, _Staged))
            with closing(self.opening()) as staging:
                staging.merge(writer, batchId, parts)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 -- Spark's name
        """Delete the staged parts. Spark may also abort a batch that is in the box; then there is nothing to delete."""
        if parts := _parts(messages):
            with closing(self.opening()) as staging:
                staging.discard(parts)


@dataclass(eq=False)
class BoxWriter(DataSourceArrowWriter):
    opening: Opening[Staging]
    writer: str
    batch: int

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return _stage(self.opening, self.writer, self.batch, iterator, _context())

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        if parts := _parts(messages):
            with closing(self.opening()) as staging:
                staging.merge(self.writer, self.batch, parts)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        if parts := _parts(messages):
            with closing(self.opening()) as staging:
                staging.discard(parts)
