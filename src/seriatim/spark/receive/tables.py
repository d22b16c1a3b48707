"""Locations whose rows have columns: Parquet files, and any other source that Spark knows.

A property is a column, or is looked up in the body. For a source whose rows only Spark knows, the columns of
`id` identify a row and give its order of arrival; `_file` and `_position` hold them in a form that any reader can sort
by.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from seriatim.errors import ColumnError, UsageError
from seriatim.pipeline.bodies.property_values import Unreadable
from seriatim.pipeline.declared.function import Function
from seriatim.pipeline.declared.pipeline import BOX, Receive
from seriatim.pipeline.declared.promotion import Promotion
from seriatim.pipeline.files.source import column_of, in_body
from seriatim.spark.frames.columns import quoted
from seriatim.spark.frames.property_types import ddl_of
from seriatim.spark.frames.readings import whole_numbers
from seriatim.spark.receive.body_reader import OWN_COLUMNS, FoundMessages, Reader, Reading
from seriatim.spark.receive.promotion import Returned
from seriatim.spark.receive.row_formats import Block, Documents
from seriatim.spark.receive.row_paths import Columns, RowPaths
from seriatim.spark.receive.text_files import Receiving, checked_options, folder_of, open_files, schema_of
from seriatim.spark.session.transient_failures import healing_of_spark
from seriatim.spark.session.versions import STARTS_ARE_TOLD, refused

_CLASSES = re.compile(r"^(?::\s*)?(?:(?:[a-z]\w*\.)+[\w$]+:\s*)+")
# Formats of files: a stream would skip files that are a week older than the newest.
_FILES = frozenset({"avro", "binaryfile", "orc", "parquet"})
# How columns are called on their way to a worker that only looks at them.
_LOOKED_AT = "_looked_at_"


def read_parquet(how: Receiving, entry: Receive) -> DataFrame:
    folder, path = folder_of(entry)
    options = checked_options(entry)
    schema = schema_of(how.spark, entry) if entry.source.schema else _schema_of_files(how, entry, path, options)
    rows = open_files(how, "parquet", entry, options).schema(schema).load(path)
    frame = rows.select(
        _row(schema),
        F.col("_metadata.file_path").alias("_path"),
        F.col("_metadata.row_index").alias("_position"),
        F.col("_metadata.file_modification_time").alias("received_at"),
    )
    prefix = f"{folder}/"
    path_text = F.url_decode(F.replace(F.regexp_replace("_path", "^file:/*", "/"), F.lit("+"), F.lit("%2B")))
    file = F.when(F.startswith(path_text, F.lit(prefix)), F.substr(path_text, F.lit(len(prefix) + 1))).otherwise(
        path_text
    )
    frame = frame.withColumn("_file", file)
    named = F.concat(F.col("_file"), F.lit(":"), (F.col("_position") + 1).cast("string"))
    return _messages(how, frame.withColumn("_name", named), entry, schema, nameless=[])


def read_source(how: Receiving, entry: Receive) -> DataFrame:
    """The messages of a location of any other format that Spark knows."""
    where = f"location {entry.location}"
    if not entry.source.id:
        problem = f"the format {entry.source.format!r} can't be received without the columns that name a row"
        raise UsageError(problem, where=where, remedy="give id, such as [topic, partition, offset]")
    if entry.source.format == BOX and not how.static and not STARTS_ARE_TOLD:
        raise refused()
    rows = _opened(how, entry)
    if entry.source.format == BOX:  # a queue without order has neither
        named = {"group": F.coalesce("group", F.lit("")), "ordinal": F.coalesce("ordinal", F.lit(0))}
        rows = rows.withColumns(named)
    schema = rows.schema
    ids = [_Id.of(entry, schema, name) for name in entry.source.id]
    *leading, last = ids
    texts, number = ([*leading, last], F.lit(0)) if last.number is None else (leading, last.number)
    frame = rows.select(_row(schema)).select(
        "_row",
        F.lit(None).cast("timestamp").alias("received_at"),
        F.concat(F.lit(""), *[text.sortable() for text in texts]).alias("_file"),
        number.cast("bigint").alias("_position"),
        F.concat_ws(":", *[F.coalesce(text.shown, F.lit("null")) for text in ids]).alias("_name"),
    )
    if entry.source.format == BOX:
        frame = frame.withColumn("_name", F.col("_row.message_id"))
    messages = _messages(how, frame, entry, schema, nameless=[text.problem() for text in ids])
    if entry.source.format != BOX:
        return messages
    # A message of a box keeps its id.
    return messages.withColumn("message_id", F.substr("message_id", F.lit(len(entry.location) + 2)))


def _opened(how: Receiving, entry: Receive) -> DataFrame:
    source = entry.source
    path = folder_of(entry)[1] if source.path is not None else None

    def opened(*, static: bool) -> DataFrame:
        reader = how.spark.read if static else how.spark.readStream
        if not static and source.format.lower() in _FILES:
            reader = reader.option("maxFileAge", "36500d")
        reader = reader.format(source.format).options(**source.options)
        if source.schema is not None:
            reader = reader.schema(schema_of(how.spark, entry))
        elif not static and source.format.lower() in _FILES:
            reader = reader.schema(opened(static=True).schema)
        return reader.load(path) if path is not None else reader.load()

    try:
        return opened(static=how.static)
    except UsageError:
        raise
    except Exception as error:  # sources raise errors without a common type
        if healing_of_spark(str(error)) is not None:
            raise
        raise UsageError(
            f"Spark can't open the format {source.format!r}: {_told(error)}",
            where=f"location {entry.location}",
            remedy="check its spelling, and that its package is in spark.jars.packages",
        ) from error


def _told(error: Exception) -> str:
    """The first meaningful line of an error, without the names of classes."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    telling = [line for line in lines if not line.startswith("An error occurred while calling")]
    return _CLASSES.sub("", telling[0])[:300] if telling else type(error).__name__


@dataclass(frozen=True, slots=True)
class _Id:
    """A column that identifies a row: its text (`shown`), and its sort key: a `number`, or if that is None a `text`."""

    name: str
    shown: Column
    text: Column
    number: Column | None
    #: Whether the value is text that isn't UTF-8.
    is_broken: Column

    @classmethod
    def of(cls, entry: Receive, schema: T.StructType, name: str) -> _Id:
        kind, column = _type_of(entry, schema, name), F.col("_row").getField(name)
        never = F.lit(False)
        match kind:
            case T.StringType():
                is_broken = ~F.is_valid_utf8(column)
                column = F.when(is_broken, F.hex(column)).otherwise(column)
                shown = F.replace(F.replace(column, F.lit("%"), F.lit("%25")), F.lit(":"), F.lit("%3A"))
                return cls(name, shown, column, None, is_broken)
            case T.BinaryType():
                return cls(name, F.hex(column), F.hex(column), None, never)
            case T.ByteType() | T.ShortType() | T.IntegerType() | T.LongType():
                number = column.cast("bigint")
            case T.BooleanType():
                number = column.cast("int").cast("bigint")
            case T.DateType():
                number = F.unix_date(column).cast("bigint")
            case T.TimestampType() | T.TimestampNTZType():
                number = F.unix_micros(column.cast("timestamp"))
            case _:
                raise UsageError(
                    f"{name} is a {kind.simpleString()}, which can't name a row",
                    where=f"location {entry.location}",
                    remedy="id takes whole numbers, text, binary, booleans, dates and timestamps",
                )
        return cls(name, column.cast("string"), column.cast("string"), number, never)

    def problem(self) -> Column:
        """Return why the value can't name a row; null: it can."""
        why = F.when(self.shown.isNull(), F.lit("null")).when(self.is_broken, F.lit("not UTF-8"))
        return F.concat(F.lit(f"{self.name}, which names the row, is "), why)

    def sortable(self) -> Column:
        """Return text that sorts like the column's values, also with other text after it; a null sorts first."""
        if self.number is None:
            escaped = F.replace(self.text, F.lit("\0"), F.lit("\0\1"))
            return F.concat(F.coalesce(escaped, F.lit("")), F.lit("\0\0"))
        shifted = self.number.cast("decimal(20,0)") + F.lit(str(2**63)).cast("decimal(20,0)")
        return F.coalesce(F.lpad(shifted.cast("string"), 20, "0"), F.lit(" " * 20))


def _type_of(entry: Receive, schema: T.StructType, name: str) -> T.DataType:
    if name not in schema.names:
        raise UsageError(
            f"there is no column {name!r}",
            where=f"location {entry.location}",
            remedy=f"one of {', '.join(schema.names)}",
        )
    return schema[name].dataType


def _row(schema: T.StructType) -> Column:
    return F.struct(*[quoted(name) for name in schema.names]).alias("_row")


def _body(entry: Receive, schema: T.StructType) -> Column:
    name = entry.source.body
    if name is None:
        return F.to_json("_row", {"ignoreNullFields": "false"}).cast("binary")
    kind = _type_of(entry, schema, name)
    if not isinstance(kind, T.StringType | T.BinaryType):
        problem = f"{name} is a {kind.simpleString()}, and a body is text or binary"
        raise UsageError(problem, where=f"location {entry.location}", remedy="leave body out: the row as JSON")
    return F.col("_row").getField(name).cast("binary")


def _messages(
    how: Receiving, frame: DataFrame, entry: Receive, schema: T.StructType, *, nameless: Sequence[Column]
) -> DataFrame:
    """Convert (_row, _name, _file, _position, received_at) to messages; a property is a column or found in the body."""
    body = _body(entry, schema)
    inside = tuple(item for item in entry.promote if entry.function or not _is_column(entry, item))
    columns_of = [_column(entry, schema, item) for item in entry.promote if item not in inside]
    documents = _documents(entry, inside, how.folders)
    looked_at = documents.values.columns() if isinstance(documents.values, RowPaths) else ()
    for name in looked_at:
        _type_of(entry, schema, name)
    problem = F.concat_ws("; ", *nameless, *[fault for _, fault in columns_of])
    messages = frame.select(
        F.concat(F.lit(f"{entry.location}/"), "_name").alias("message_id"),
        "received_at",
        body.alias("body"),
        F.when(problem != "", F.concat("_name", F.lit(": "), problem)).alias("_invalid"),
        "_file",
        "_position",
        *[value for value, _ in columns_of],
        *[F.col("_row").getField(name).alias(f"{_LOOKED_AT}{place}") for place, name in enumerate(looked_at)],
    )
    if not inside and entry.split is None:
        return messages
    reading = how.reading(entry, inside, documents)
    try:
        reading.check()
    except UsageError as error:
        raise UsageError(error.what, where=f"location {entry.location}", remedy=error.remedy) from error
    kept = "".join(f", `{item.name}` {ddl_of(item.type)}" for item in entry.promote if item not in inside)
    return messages.mapInArrow(_Bodies(reading, looked_at).__call__, OWN_COLUMNS + kept + reading.schema())


def _is_column(entry: Receive, item: Promotion) -> bool:
    if item.told_by is not None or len(item.paths) > 1:
        return False
    (path,) = item.paths
    return not in_body(entry.source.kind, path, entry.split, entry.envelope) and column_of(path)[1] is None


def _documents(entry: Receive, promote: tuple[Promotion, ...], folders: tuple[str, ...]) -> Documents:
    if entry.function:
        return Documents(Returned(Function(entry.function, folders), promote), in_files=False)
    if not promote:
        return Documents(None, in_files=False)
    return Documents(RowPaths(promote, entry.namespaces, blank=entry.envelope is not None), in_files=False)


@dataclass(frozen=True, slots=True)
class _Bodies:
    """Reads a task's bodies. The existing columns stay, except columns that are only read: `looked_at`."""

    reading: Reading
    looked_at: tuple[str, ...] = ()

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        reader = Reader(self.reading)
        reader.enter(Block("", 0))
        for batch in batches:
            prefix = len(self.reading.location) + 1
            names = [message_id[prefix:] for message_id in batch.column("message_id").to_pylist()]
            refused = batch.column("_invalid").to_pylist()
            bodies, columns = batch.column("body").to_pylist(), self._columns(batch)
            rows = batch.drop_columns([name for name in batch.schema.names if name.startswith(_LOOKED_AT)])
            for messages in reader.read(bodies, names, refused=refused, columns=columns):
                yield _joined(rows, messages)
            yield _joined(rows, reader.taken())

    def _columns(self, batch: pa.RecordBatch) -> list[Columns] | None:
        if not self.looked_at:
            return None
        columns = [_values(batch.column(f"{_LOOKED_AT}{place}")) for place in range(len(self.looked_at))]
        return [dict(zip(self.looked_at, row, strict=True)) for row in zip(*columns, strict=True)]


def _values(column: pa.Array) -> list[Any]:
    """Return a column's values, text as bytes: Spark doesn't check that it is UTF-8, and one row that isn't is no fault of the others."""
    is_text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    column = column.cast(pa.large_binary()) if is_text else column
    try:
        return column.to_pylist()
    except (ValueError, OverflowError):
        return [_value(one) for one in column]


def _value(one: pa.Scalar) -> Any:
    """A value of Python, or why there is none."""
    try:
        return one.as_py()
    except UnicodeDecodeError:
        return Unreadable("text that is not UTF-8")
    except (ValueError, OverflowError):
        return Unreadable("a date or a time outside of the years 1 to 9999")


def _joined(batch: pa.RecordBatch, messages: FoundMessages) -> pa.RecordBatch:
    rows = batch.take(pa.array(messages.kept, pa.int64()))
    own = dict(zip(rows.schema.names, rows.columns, strict=True))
    return pa.RecordBatch.from_pydict({**own, **messages.columns(batch.column("body"))})


def _schema_of_files(how: Receiving, entry: Receive, path: str, options: Mapping[str, str]) -> T.StructType:
    try:
        return open_files(replace(how, static=True), "parquet", entry, options).load(path).schema
    except AnalysisException as error:
        problem = f"no Parquet file in {path} tells the columns"
        raise UsageError(
            problem, where=f"location {entry.location}", remedy="put one there, or give the schema"
        ) from error


def _column(entry: Receive, schema: T.StructType, item: Promotion) -> tuple[Column, Column]:
    """The value of a property that is one column, and its problem (null if there is none)."""
    (name,) = item.paths
    kind = _type_of(entry, schema, name)
    column, ddl = F.col("_row").getField(name), ddl_of(item.type)
    value = _whole(kind, column) if ddl == "bigint" else column.try_cast(ddl)
    lossy = value.isNull()
    if ddl.startswith("decimal") and isinstance(kind, T.NumericType):
        lossy = lossy | (value != column)
    if ddl == "string":
        lossy = lossy | ~F.is_valid_utf8(value)
    shown, reason = F.make_valid_utf8(column.cast("string")), f" is not a {item.type}"
    if item.name == "type":
        shown = F.concat(F.lit("'"), F.replace(shown, F.lit("\0"), F.lit("\\0")), F.lit("'"))
        lossy, reason = lossy | (value == "") | F.contains(value, F.lit("\0")), " can't be the type of a message"
    wrong = F.concat(F.lit(f"{item.name}: "), shown, F.lit(reason))
    fault = F.when(column.isNotNull() & lossy, wrong)
    return F.when(column.isNotNull() & ~lossy, value).alias(item.name), fault


def _whole(kind: T.DataType, column: Column) -> Column:
    """The whole numbers of a column; in a type without any, such as boolean, nothing is a number."""
    try:
        return whole_numbers(kind, column, "", "").number
    except ColumnError:
        return F.lit(None).cast("bigint")
