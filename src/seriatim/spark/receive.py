"""Receiving: files become a frame with one row a message.

Owns how a row is read, named and counted. What a message's group and sequence mean is the operator's
business; what can't be read at all is marked here, with file, line and reason, and stops nothing else.

The frame's columns, besides the promoted properties:

=============  =========  ================================================================================
message_id     string     ``location/file:line``, the same on every replay (see *Naming*)
type           string     the promoted property of that name, else null
location       string
received_at    timestamp  when the file was last written: the same on every replay
body           binary     what arrived: the line without its end; for Parquet the row as JSON
_invalid       string     why the row is no message; null for a message
_file          string     the file, relative to the location's folder
_position      long       increasing within a file
=============  =========  ================================================================================

`ARRIVAL` orders all rows of a micro-batch: files by time of writing and then by name, rows by place. Between
micro-batches Spark takes files by time of writing, and those of the same millisecond in any order.

*Naming.* Spark cuts large text files into blocks, and only a block knows its rows. A row's line counts
from the start of its block, whose first byte is named where it isn't 0: ``crm/big.json@33554432:7``. Blocks
are cut alike on a replay because the settings for it stay with the checkpoint (`session.SPLITTING`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce
from pathlib import Path

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamReader
from pyspark.sql.types import NumericType, StructType

from seriatim.errors import UsageError
from seriatim.pipeline.declaration import Pipeline, Promotion, Receive
from seriatim.spark.promote import CsvColumns, CsvDialect, JsonPaths, ddl_of
from seriatim.spark.rows import CsvRows, JsonRows, Location, RowFormat

__all__ = ["ARRIVAL", "promoted", "receive"]

#: Columns by which the rows of a micro-batch are in order of arrival; total.
ARRIVAL = ("received_at", "location", "_file", "_position")

_FILE_OPTIONS = frozenset(
    {
        "cleansource",
        "discardcachedinputratio",
        "filenameonly",
        "latestfirst",
        "maxbytespertrigger",
        "maxcachedfiles",
        "maxfileage",
        "maxfilespertrigger",
        "pathglobfilter",
        "recursivefilelookup",
        "sourcearchivedir",
    }
)
_ROW_OPTIONS: Mapping[str, frozenset[str]] = {
    "json": frozenset({"multiline", "linesep"}),
    "csv": frozenset({"header", "sep", "delimiter", "quote", "escape", "linesep"}),
    "parquet": frozenset(),
}
# Spark leaves out files that are a week older than the newest, without a word.
_MAX_FILE_AGE = "36500d"


def receive(spark: SparkSession, pipeline: Pipeline, *, static: bool = False) -> DataFrame:
    """All locations of a pipeline as one frame; the columns are those of this module's description.

    Args:
        spark: the session.
        pipeline: what to receive.
        static: what is there now as a batch frame, instead of a stream.

    Raises:
        UsageError: a folder that isn't there, an option that isn't known, a Parquet folder without files or schema.
    """
    properties = promoted(pipeline.receive)
    frames = [_location(spark, entry, properties, static=static) for entry in pipeline.receive]
    return reduce(DataFrame.unionByName, frames)


def promoted(received: Iterable[Receive]) -> dict[str, str]:
    """Every promoted property and its Spark type, in the order in which they are first named; without ``type``."""
    found: dict[str, str] = {}
    for entry in received:
        for item in entry.promote:
            ddl = ddl_of(item.type)
            if item.name != "type" and found.setdefault(item.name, ddl) != ddl:
                raise UsageError(f"{item.name} is {found[item.name]} at one location and {ddl} at another")
    return found


def _location(spark: SparkSession, entry: Receive, properties: Mapping[str, str], *, static: bool) -> DataFrame:
    source = entry.source
    root = _folder(entry)
    options = _checked_options(entry)
    if source.format == "parquet":
        frame = _parquet(spark, entry, root, options, static=static)
    else:
        frame = _lines(spark, entry, root, options, static=static)
    for name in ("type", *properties):
        if name not in frame.columns:
            frame = frame.withColumn(name, F.lit(None).cast(properties.get(name, "string")))
    return frame.select(
        "message_id", "type", F.lit(entry.location).alias("location"), "received_at", *properties, "body", "_invalid",
        "_file", "_position",
    )  # fmt: skip


def _folder(entry: Receive) -> Path:
    """The folder of a location, absolute; of a pattern the part before it."""
    if entry.source.path is None:
        raise UsageError("the source names no path", where=f"location {entry.location}")
    path = entry.source.path.absolute()
    plain = next(part for part in (path, *path.parents) if not set(str(part)) & set("*?[{"))
    if not plain.exists():
        raise UsageError(
            f"the input folder {plain} is not there", where=f"location {entry.location}", remedy="create it"
        )
    return plain


def _checked_options(entry: Receive) -> dict[str, str]:
    allowed = _ROW_OPTIONS.get(entry.source.format)
    where = f"location {entry.location}"
    if allowed is None:
        raise UsageError(
            f"the format {entry.source.format!r} can't be received", where=where, remedy="json, csv, parquet"
        )
    for name in entry.source.options:
        if name.lower() not in allowed | _FILE_OPTIONS:
            known = ", ".join(sorted(allowed | _FILE_OPTIONS))
            raise UsageError(
                f"unknown option {name!r} of {entry.source.format}", where=where, remedy=f"it takes {known}"
            )
    return {name.lower(): value for name, value in entry.source.options.items()}


def _open(
    spark: SparkSession, kind: str, entry: Receive, options: Mapping[str, str], *, static: bool
) -> DataFrameReader | DataStreamReader:
    """A reader of Spark's for the files of a location, with the options that concern files."""
    reader = spark.read if static else spark.readStream
    given = {name: value for name, value in options.items() if name in _FILE_OPTIONS}
    if not static:
        given = {"maxfileage": _MAX_FILE_AGE, **given}
    return reader.format(kind).options(**given)


def _lines(spark: SparkSession, entry: Receive, root: Path, options: Mapping[str, str], *, static: bool) -> DataFrame:
    """The rows of text files, read as they are and promoted in Python."""
    source = entry.source
    reader = _open(spark, "text", entry, options, static=static)
    if _flag(entry, options, "multiline", default=False):
        reader = reader.option("wholetext", "true")
    elif "linesep" in options:
        reader = reader.option("lineSep", options["linesep"])
    lines = reader.load(str(source.path.absolute())).select(  # type: ignore[union-attr]
        F.col("value").cast("binary").alias("body"),
        F.col("_metadata.file_path").alias("path"),
        F.col("_metadata.file_block_start").alias("block"),
        F.col("_metadata.file_modification_time").alias("received_at"),
    )
    rows: RowFormat
    if source.format == "json":
        rows = JsonRows(JsonPaths(entry.promote))
        rows.paths.reader()  # a wrong path is told here, not by a worker
    else:
        rows = CsvRows(CsvColumns(entry.promote, _dialect(entry, options)), _csv_names(spark, entry, options))
    promoted = ", ".join(f"`{item.name}` {ddl_of(item.type)}" for item in entry.promote)
    schema = "message_id string, received_at timestamp, body binary, _invalid string, _file string, _position bigint"
    work = Location(entry.location, str(root), entry.promote, rows)
    return lines.mapInArrow(work.__call__, f"{schema}, {promoted}" if promoted else schema)


def _flag(entry: Receive, options: Mapping[str, str], name: str, *, default: bool) -> bool:
    value = options.get(name, str(default)).lower()
    if value not in {"true", "false"}:
        raise UsageError(f"{name} is true or false, not {value!r}", where=f"location {entry.location}")
    return value == "true"


def _dialect(entry: Receive, options: Mapping[str, str]) -> CsvDialect:
    separator = options.get("sep", options.get("delimiter", ","))
    quote, escape = options.get("quote", '"'), options.get("escape") or None
    for name, value in (("sep", separator), ("quote", quote), ("escape", escape or "\\")):
        if len(value) != 1 or value in "\r\n":
            raise UsageError(f"{name} is one character, not {value!r}", where=f"location {entry.location}")
    # A quote that escapes itself is the doubled quote, which is what there is without an escape.
    return CsvDialect(separator, quote, None if escape == quote else escape)


def _csv_names(spark: SparkSession, entry: Receive, options: Mapping[str, str]) -> tuple[str, ...] | None:
    """The names of the columns where the files have no header; None: they have."""
    if _flag(entry, options, "header", default=True):
        return None
    if entry.source.schema is None:
        raise UsageError(
            "CSV without a header needs a schema",
            where=f"location {entry.location}",
            remedy="schema: a string, b string",
        )
    return tuple(_schema(spark, entry).names)


def _schema(spark: SparkSession, entry: Receive) -> StructType:
    try:
        parsed = spark.createDataFrame([], entry.source.schema or "").schema
    except Exception as error:  # the parser's errors have no common type
        what = f"the schema is not Spark DDL: {str(error).strip().splitlines()[0]}"
        raise UsageError(
            what, where=f"location {entry.location}", remedy="such as id string, version bigint"
        ) from error
    return parsed


def _parquet(spark: SparkSession, entry: Receive, root: Path, options: Mapping[str, str], *, static: bool) -> DataFrame:
    """The rows of Parquet files; a property is a column, and must not lose anything by its type."""
    path = str(entry.source.path.absolute())  # type: ignore[union-attr]
    schema = _schema(spark, entry) if entry.source.schema else _schema_of_files(spark, entry, path, options)
    rows = _open(spark, "parquet", entry, options, static=static).schema(schema).load(path)
    columns = [F.col(f"`{name}`") for name in schema.names]
    frame = rows.select(
        F.struct(*columns).alias("_row"),
        F.col("_metadata.file_path").alias("_path"),
        F.col("_metadata.row_index").alias("_position"),
        F.col("_metadata.file_modification_time").alias("received_at"),
    )
    prefix = f"{root}/"
    path_text = F.url_decode(F.replace(F.regexp_replace("_path", "^file:/*", "/"), F.lit("+"), F.lit("%2B")))
    file = F.when(F.startswith(path_text, F.lit(prefix)), F.substr(path_text, F.lit(len(prefix) + 1))).otherwise(
        path_text
    )
    frame = frame.withColumn("_file", file)
    named = F.concat(F.col("_file"), F.lit(":"), (F.col("_position") + 1).cast("string"))
    columns_of = [_column(entry, schema, item) for item in entry.promote]
    problem = F.concat_ws("; ", *[fault for _, fault in columns_of])
    return frame.select(
        F.concat(F.lit(f"{entry.location}/"), named).alias("message_id"),
        "received_at",
        F.to_json("_row", {"ignoreNullFields": "false"}).cast("binary").alias("body"),
        F.when(problem != "", F.concat(named, F.lit(": "), problem)).alias("_invalid"),
        "_file",
        "_position",
        *[value for value, _ in columns_of],
    )


def _schema_of_files(spark: SparkSession, entry: Receive, path: str, options: Mapping[str, str]) -> StructType:
    try:
        return _open(spark, "parquet", entry, options, static=True).load(path).schema
    except AnalysisException as error:
        what = f"no Parquet file in {path} tells the columns"
        raise UsageError(
            what, where=f"location {entry.location}", remedy="put one there, or give the schema"
        ) from error


def _column(entry: Receive, schema: StructType, item: Promotion) -> tuple[Column, Column]:
    """A property's value, and what is wrong with it (null where nothing is)."""
    if item.path not in schema.names:
        raise UsageError(
            f"there is no column {item.path!r}",
            where=f"location {entry.location}",
            remedy=f"one of {', '.join(schema.names)}",
        )
    found, ddl = F.col("_row").getField(item.path), ddl_of(item.type)
    value = found.try_cast(ddl)
    lossy = value.isNull()
    if ddl.startswith(("bigint", "decimal")) and isinstance(schema[item.path].dataType, NumericType):
        lossy = lossy | (value != found)
    wrong = F.concat(F.lit(f"{item.name}: "), found.cast("string"), F.lit(f" is not a {item.type}"))
    fault = F.when(found.isNotNull() & lossy, wrong)
    return F.when(found.isNotNull() & ~lossy, value).alias(item.name), fault
