"""Reading from a message box: a queue batch by batch, or what a queue or the spool has now.

The box makes the batches and keeps them (its *feed*); here they become offsets, partitions and rows of Spark's. An
offset is the number of a batch, and the name by which the box knows the checkpoint: a query that starts anew has none
yet, gets one with its first batch, and from then on the queue is its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql import types as T
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from seriatim.errors import UsageError
from seriatim.spark.frames.property_types import arrow_type

__all__ = ["BoxReader", "BoxStreamReader", "Feed", "schema_of"]

_TICKET = T.StructType(
    [
        T.StructField("location", T.StringType()),
        T.StructField("epoch", T.LongType()),
        T.StructField("number", T.LongType()),
    ]
)
_COLUMNS = (
    T.StructField("message_id", T.StringType()),
    T.StructField("type", T.StringType()),
    T.StructField("location", T.StringType()),
    T.StructField("ticket", _TICKET),
    T.StructField("content_type", T.StringType()),
    T.StructField("received_at", T.TimestampType()),
)
_ORDER = (
    T.StructField("group", T.StringType()),
    T.StructField("sequence", T.LongType()),
    T.StructField("ordinal", T.LongType()),
    T.StructField("late", T.BooleanType()),
)
_PART = T.StructType(
    [
        T.StructField("name", T.StringType()),
        T.StructField("content_type", T.StringType()),
        T.StructField("body", T.BinaryType()),
    ]
)
_BODY = (
    T.StructField("context", T.StringType()),
    T.StructField("body", T.BinaryType()),
    T.StructField("parts", T.ArrayType(_PART)),
)


class Feed(Protocol):
    """What the box gives to read. A reader is a checkpoint; a part is a range of what there is."""

    def properties(self) -> Mapping[str, str]:
        """The properties that have columns, and their types."""

    def next(self, reader: str, batch: int, at_most: int | None) -> tuple[str, int, int]:
        """The next batch, if there is anything for it: the reader, the batch, how many messages it has.

        `at_most` 0: only one that is complete already; None: as many as there are.
        """

    def waiting(self) -> int:
        """How many messages there are that aren't worked on."""

    def parts(self, reader: str, after: int, through: int) -> Sequence[tuple[Any, Any]]:
        """What the messages of some batches are cut into."""

    def read(
        self, after: int, through: int, part: tuple[Any, Any], properties: Mapping[str, str]
    ) -> Iterator[pa.RecordBatch]:
        """The messages of a part."""

    def done(self, reader: str, through: int) -> None:
        """The batches through this one are worked on; it stays until the next is, too."""

    def parts_now(self) -> Sequence[tuple[Any, Any]]:
        """What is there now, cut into parts."""

    def read_now(self, part: tuple[Any, Any], properties: Mapping[str, str]) -> Iterator[pa.RecordBatch]:
        """The messages of a part of what is there now."""

    def close(self) -> None:
        """Let go."""


def schema_of(properties: Mapping[str, str], prefix: str, *, ordered: bool) -> T.StructType:
    """The columns of a frame that is read from a box.

    Args:
        properties: the properties that have columns, and their types.
        prefix: what the names of these columns begin with.
        ordered: whether it is a queue, and not the spool.
    """
    found = T.StructType([*_COLUMNS, *(_ORDER if ordered else ())])
    for name, kind in properties.items():
        found = found.add(prefix + name, _type(kind))
    return T.StructType([*found.fields, *_BODY])


def _type(kind: str) -> T.DataType:
    return from_arrow_type(arrow_type(kind))


@dataclass(frozen=True, slots=True)
class _Part(InputPartition):
    """A range of batches, and of what they have."""

    after: int
    through: int
    part: tuple[Any, Any]


class _Lazy:
    """Something of the box's that is opened where it is used, and doesn't travel."""

    def __init__(self, open_feed: Callable[[], Feed]) -> None:
        self._open = open_feed
        self._opened: Feed | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return _Lazy, (self._open,)

    def get(self) -> Feed:
        if self._opened is None:
            self._opened = self._open()
        return self._opened

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()
            self._opened = None


class BoxStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a queue, batch by batch.

    Args:
        open_feed: opens the box's side.
        schema: the columns that are wanted.
        at_most: so many messages a batch; sets of a `UnitOfWork` come whole.
        prefix: what the names of the columns of properties begin with.
    """

    def __init__(self, open_feed: Callable[[], Feed], schema: T.StructType, at_most: int, prefix: str) -> None:
        self._feed = _Lazy(open_feed)
        self._schema = schema
        self._at_most = at_most
        self._prefix = prefix
        # Of a query that ends with what is there now: how many messages it still may take.
        self._left: int | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 -- Spark's name
        """Spark asks again for the replay of a first batch, so nothing is claimed here."""
        return {"reader": "", "batch": 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 -- Spark's name
        """See Spark."""
        return ReadMaxRows(self._at_most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 -- Spark's name
        """What comes from now on is for another run."""
        self._left = self._feed.get().waiting()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 -- Spark's name
        """The next batch, made now and for good."""
        at_most = None if isinstance(limit, ReadAllAvailable) else self._at_most
        if isinstance(limit, ReadMaxRows):
            at_most = limit.max_rows
        if self._left is not None:
            at_most = self._left if at_most is None else min(self._left, at_most)
        reader, batch, messages = self._feed.get().next(start["reader"], start["batch"], at_most)
        if self._left is not None:
            self._left = max(self._left - messages, 0)
        # Where there is nothing new it has to be the very same offset.
        return {"reader": reader, "batch": batch} if messages else start

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Ranges of groups."""
        if start["batch"] == end["batch"]:
            return []
        after, through = start["batch"], end["batch"]
        _check_types(self._feed.get().properties(), self._schema, self._prefix)
        return [_Part(after, through, part) for part in self._feed.get().parts(end["reader"], after, through)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The messages of a range, each group in order."""
        if not isinstance(partition, _Part):
            return
        try:
            feed = self._feed.get()
            wanted = _wanted(feed.properties(), self._schema, self._prefix)
            for rows in feed.read(partition.after, partition.through, partition.part, wanted):
                yield _conformed(rows, self._schema)
        finally:
            self._feed.close()

    def commit(self, end: dict[str, Any]) -> None:
        """The batch is worked on; it stays until the next is, too."""
        if end["reader"]:
            self._feed.get().done(end["reader"], end["batch"])

    def stop(self) -> None:
        """See Spark."""
        self._feed.close()


class BoxReader(DataSourceReader):
    """Reads what a queue or the spool has now, and changes nothing.

    Args:
        open_feed: opens the box's side.
        schema: the columns that are wanted.
        prefix: what the names of the columns of properties begin with.
    """

    def __init__(self, open_feed: Callable[[], Feed], schema: T.StructType, prefix: str) -> None:
        self._feed = _Lazy(open_feed)
        self._schema = schema
        self._prefix = prefix

    def partitions(self) -> list[InputPartition]:
        """Ranges of entries or arrivals."""
        try:
            _check_types(self._feed.get().properties(), self._schema, self._prefix)
            return [_Part(0, 0, part) for part in self._feed.get().parts_now()]
        finally:
            self._feed.close()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The messages of a range; Spark asks for one without a range where there are none."""
        if not isinstance(partition, _Part):
            return
        try:
            feed = self._feed.get()
            wanted = _wanted(feed.properties(), self._schema, self._prefix)
            for rows in feed.read_now(partition.part, wanted):
                yield _conformed(rows, self._schema)
        finally:
            self._feed.close()


def _check_types(properties: Mapping[str, str], schema: T.StructType, prefix: str) -> None:
    """Refuse a schema of the user's own with other types than the columns have.

    Raises:
        UsageError: names the column.
    """
    there = {field.name: field.dataType for field in schema_of(properties, prefix, ordered=True)}
    for field in schema:
        if there.get(field.name, field.dataType) != field.dataType:
            known, given = there[field.name].simpleString(), field.dataType.simpleString()
            raise UsageError(
                f"the column {field.name!r} is {known}, not {given}", remedy="leave the schema out, and cast the column"
            )


def _wanted(properties: Mapping[str, str], schema: T.StructType, prefix: str) -> dict[str, str]:
    """The properties that the frame has columns for; what was declared later has none."""
    names = set(schema.names)
    return {name: kind for name, kind in properties.items() if prefix + name in names}


def _conformed(rows: pa.RecordBatch, schema: T.StructType) -> pa.RecordBatch:
    """The rows with the columns of the frame; a property that nobody declares any more is null.

    Raises:
        UsageError: a property has another type now than when the query was started.
    """
    wanted = to_arrow_schema(schema, timezone="UTC")
    there = set(rows.schema.names)
    columns = []
    for field in wanted:
        try:
            found = rows.column(field.name).cast(field.type) if field.name in there else None
        except pa.ArrowException as error:
            raise UsageError(
                f"the column {field.name!r} is no {field.type} any more: {error}", remedy="start the query once more"
            ) from error
        columns.append(pa.nulls(len(rows), field.type) if found is None else found)
    return pa.RecordBatch.from_arrays(columns, schema=wanted)
