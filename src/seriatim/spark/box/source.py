"""Read from a message box: a queue batch by batch, or the present content of a queue or the spool.

The box makes the batches and keeps them (its *feed*); here they become offsets, partitions and rows of Spark. An
offset is the number of a batch, and the name by which the box knows the checkpoint: a new query has no name yet,
gets one with its first batch, and from then on owns the queue.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql import types as T
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_type

from seriatim.errors import UsageError
from seriatim.spark.box.opening import Opening, Side
from seriatim.spark.frames.columns import TICKET, columns
from seriatim.spark.frames.property_types import arrow_type
from seriatim.spark.session.versions import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
    arrow_schema,
    refused,
)

_TEXT, _LONG = T.StringType(), T.LongType()
_COLUMNS = columns(
    message_id=_TEXT, type=_TEXT, location=_TEXT, ticket=TICKET, content_type=_TEXT, received_at=T.TimestampType()
)
_ORDER = columns(group=_TEXT, sequence=_LONG, ordinal=_LONG, late=T.BooleanType())
_PART = columns(name=_TEXT, content_type=_TEXT, body=T.BinaryType())
_BODY = columns(context=_TEXT, body=T.BinaryType(), parts=T.ArrayType(_PART))


class BoxFeed(Side, Protocol):
    """The box's side of reading. A reader is a checkpoint; a part is a range of the messages."""

    def properties(self) -> Mapping[str, str]:
        """The properties that have columns, and their types."""

    def next(self, reader: str, batch: int, at_most: int | None) -> tuple[str, int, int]:
        """The next batch, if there are messages for it: the reader, the batch, its number of messages. `at_most` 0: only a batch that is
        complete already; None: all messages.
        """

    def waiting(self) -> int:
        """The number of messages that aren't done."""

    def parts(self, reader: str, after: int, through: int) -> Sequence[tuple[Any, Any]]:
        """The parts of the messages of some batches."""

    def read(
        self, after: int, through: int, part: tuple[Any, Any], properties: Mapping[str, str]
    ) -> Iterator[pa.RecordBatch]:
        """The messages of a part."""

    def done(self, reader: str, through: int) -> None:
        """Note that the batches up to this one are processed; this one stays until the next is processed, too."""

    def parts_now(self) -> Sequence[tuple[Any, Any]]:
        """The parts of the present content."""

    def read_now(self, part: tuple[Any, Any], properties: Mapping[str, str]) -> Iterator[pa.RecordBatch]:
        """The messages of a part of the present content."""


def schema_of(properties: Mapping[str, str], prefix: str, *, ordered: bool) -> T.StructType:
    """Return the columns of a frame that is read from a box; `ordered`: from a queue, and not from the spool."""
    schema = T.StructType([*_COLUMNS, *(_ORDER if ordered else ())])
    for name, kind in properties.items():
        schema = schema.add(prefix + name, _type(kind))
    return T.StructType([*schema.fields, *_BODY])


def _type(kind: str) -> T.DataType:
    return from_arrow_type(arrow_type(kind))


@dataclass(frozen=True, slots=True)
class _MessageRange(InputPartition):
    after: int
    through: int
    part: tuple[Any, Any]


@dataclass(eq=False)
class BoxStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Read a queue, batch by batch, at most `at_most` messages in each; sets of a `UnitOfWork` come whole."""

    opening: Opening[BoxFeed]
    schema: T.StructType
    at_most: int
    prefix: str
    #: The box of the process that plans the batches.
    _feed: BoxFeed | None = None
    #: How many messages a query that ends with the present ones may still read.
    _left: int | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 -- Spark's name
        """The offset before the first batch. It claims nothing, because Spark asks again when it replays a first batch."""
        return {"reader": "", "batch": 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 -- Spark's name
        return ReadMaxRows(self.at_most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 -- Spark's name
        """Leave messages that come from now on to another run."""
        self._left = self._planning().waiting()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 -- Spark's name
        """The next batch, made now and for good."""
        at_most = None if isinstance(limit, ReadAllAvailable) else self.at_most
        if isinstance(limit, ReadMaxRows):
            at_most = limit.max_rows
        if self._left is not None:
            at_most = self._left if at_most is None else min(self._left, at_most)
        reader, batch, messages = self._planning().next(start["reader"], start["batch"], at_most)
        if self._left is not None:
            self._left = max(self._left - messages, 0)
        # Where there is nothing new it has to be the very same offset.
        return {"reader": reader, "batch": batch} if messages else start

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        if start["batch"] == end["batch"]:
            return []
        after, through = start["batch"], end["batch"]
        _check_types(self._planning().properties(), self.schema, self.prefix)
        return [_MessageRange(after, through, part) for part in self._planning().parts(end["reader"], after, through)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The messages of a range, each group in order."""
        if not isinstance(partition, _MessageRange):
            return
        with self.opening.kept() as feed:
            wanted = _wanted(feed.properties(), self.schema, self.prefix)
            for rows in feed.read(partition.after, partition.through, partition.part, wanted):
                yield _conformed(rows, self.schema)

    def commit(self, end: dict[str, Any]) -> None:
        """Note that the batch is processed; it stays until the next is processed, too."""
        if end["reader"]:
            self._planning().done(end["reader"], end["batch"])

    def stop(self) -> None:
        if self._feed is not None:
            self._feed.close()

    def _planning(self) -> BoxFeed:
        if self._feed is None:
            self._feed = self.opening()
        return self._feed


class RefusedStreamReader(DataSourceStreamReader):
    """A stream of a queue where Spark doesn't tell a source its starts; Spark loses an error that comes sooner than the first offset. A
    process that doesn't know the last batch can't know which messages the box is to give it again.
    """

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 -- Spark's name
        raise refused()

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override] # noqa: N802 -- Spark's name, and its signature before 4.2
        raise refused()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        raise refused()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        raise refused()


@dataclass(eq=False)
class BoxReader(DataSourceReader):
    """Read the present content of a queue or the spool, without changing it."""

    opening: Opening[BoxFeed]
    schema: T.StructType
    prefix: str

    def partitions(self) -> list[InputPartition]:
        with closing(self.opening()) as feed:
            _check_types(feed.properties(), self.schema, self.prefix)
            return [_MessageRange(0, 0, part) for part in feed.parts_now()]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The messages of a range; Spark passes no range if there are no partitions."""
        if not isinstance(partition, _MessageRange):
            return
        with self.opening.kept() as feed:
            wanted = _wanted(feed.properties(), self.schema, self.prefix)
            for rows in feed.read_now(partition.part, wanted):
                yield _conformed(rows, self.schema)


def _check_types(properties: Mapping[str, str], schema: T.StructType, prefix: str) -> None:
    """Refuse a user's schema with other types than the columns have. Raises `UsageError`: names the column."""
    there = {field.name: field.dataType for field in schema_of(properties, prefix, ordered=True)}
    for field in schema:
        if there.get(field.name, field.dataType) != field.dataType:
            known, given = there[field.name].simpleString(), field.dataType.simpleString()
            raise UsageError(
                f"the column {field.name!r} is {known}, not {given}", remedy="leave the schema out, and cast the column"
            )


def _wanted(properties: Mapping[str, str], schema: T.StructType, prefix: str) -> dict[str, str]:
    """The properties for which the frame has columns; properties that were declared later have none."""
    names = set(schema.names)
    return {name: kind for name, kind in properties.items() if prefix + name in names}


def _conformed(rows: pa.RecordBatch, schema: T.StructType) -> pa.RecordBatch:
    """The rows with the columns of the frame; a property that is no longer declared is null. Raises `UsageError`: a property has another
    type now than when the query was started.
    """
    wanted = arrow_schema(schema, "UTC")
    there = set(rows.schema.names)
    found = []
    for field in wanted:
        try:
            column = rows.column(field.name).cast(field.type) if field.name in there else None
        except pa.ArrowException as error:
            raise UsageError(
                f"the column {field.name!r} is no {field.type} any more: {error}", remedy="start the query once more"
            ) from error
        found.append(pa.nulls(len(rows), field.type) if column is None else column)
    return pa.RecordBatch.from_arrays(found, schema=wanted)
