"""Locations whose files are read as text: JSON, CSV, text and XML; and the meaning of their options."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lxml import etree
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamReader
from pyspark.sql.types import StructType

from seriatim.errors import UsageError
from seriatim.pipeline.bodies.envelopes.moves import moves_of
from seriatim.pipeline.bodies.json_paths import JsonPaths
from seriatim.pipeline.bodies.property_values import Unreadable
from seriatim.pipeline.bodies.xml_paths import XmlPaths, document_reader, found
from seriatim.pipeline.bodies.xpath import compiled
from seriatim.pipeline.declared.function import Function, search_folders
from seriatim.pipeline.declared.pipeline import Pipeline, Receive
from seriatim.pipeline.declared.promotion import Promotion
from seriatim.pipeline.files.source import FILE_OPTIONS, MAX_ROW_BYTES, OPTIONS, row_bytes
from seriatim.spark.calls.register import Calling
from seriatim.spark.receive.body_reader import OWN_COLUMNS, Reading
from seriatim.spark.receive.gz_files import HANDED_OVER, Shape
from seriatim.spark.receive.promotion import CsvColumns, CsvDialect, Returned
from seriatim.spark.receive.row_formats import CsvRows, Documents, RowFormat
from seriatim.spark.receive.split import JsonElements, NothingToSplit, ReturnedParts, Splitter
from seriatim.spark.receive.text_lines import LineReader

# Spark silently skips files that are a week older than the newest.
_MAX_FILE_AGE = "36500d"

# Nested elements, each with the namespaces that it has to declare, can make a very large body of a small one.
_MOST_TIMES, _LEAST_ROOM = 16, 16 * 2**20
# libxml2 compares each of them with all others.
_MOST_NAMESPACES = 1_000


@dataclass(frozen=True, slots=True)
class XmlElements:
    """Splits a document: the elements that a path finds, in document order, each with its namespaces."""

    path: str
    namespaces: Mapping[str, str] = field(default_factory=dict)

    def splitter(self) -> Callable[[bytes], list[bytes]]:
        """A function from a body to the bodies of its parts; it raises `Unreadable`. Raises `UsageError` if the path is wrong."""
        find, root_of = compiled(self.path, self.namespaces), document_reader()

        def split(body: bytes) -> list[bytes]:
            elements = found("split", find, root_of(body))
            if not isinstance(elements, list) or not all(isinstance(element, etree._Element) for element in elements):  # noqa: SLF001 - lxml's only name for it
                raise Unreadable(f"split: {self.path} finds values, not elements")
            parts, room = [], _LEAST_ROOM + _MOST_TIMES * len(body)
            for element in elements:
                if isinstance(element.tag, str):
                    if len(element.nsmap) > _MOST_NAMESPACES:
                        raise Unreadable(f"split: an element has more than {_MOST_NAMESPACES:,} namespaces")
                    parts.append(etree.tostring(element, encoding="utf-8", with_tail=False))
                    room -= len(parts[-1])
                if room < 0:
                    raise Unreadable(
                        f"split: what {self.path} finds is together more than {_MOST_TIMES} times the body"
                    )
            if not parts:
                raise NothingToSplit(f"split: {self.path} finds no element")
            return parts

        return split


@dataclass(frozen=True, slots=True)
class Receiving:
    """What the locations of a pipeline share while they are received."""

    spark: SparkSession
    calling: Calling
    #: The folders of the user's code.
    folders: tuple[str, ...]
    #: The properties that are group keys.
    groups: Collection[str]
    static: bool

    @classmethod
    def of(cls, spark: SparkSession, pipeline: Pipeline, calling: Calling, *, static: bool = False) -> Receiving:
        groups = {route.queue.group.by for route in pipeline.route if route.queue.group.by is not None}
        return cls(spark, calling, search_folders(pipeline.source_file), groups, static)

    def reading(self, entry: Receive, promote: tuple[Promotion, ...], rows: RowFormat) -> Reading:
        """How the bodies of a location are read; its `check` is the caller's."""
        split = entry.split
        names = [name for name in (entry.function, None if split is None else split.function) if name is not None]
        calling = self.calling.of(" or ".join(names), entry.location) if names else None
        otherwise = "invalid" if split is None else split.otherwise
        splitter, moves = _splitter(entry, self.folders), moves_of(entry, self.groups)
        return Reading(entry.location, promote, rows, splitter, otherwise, calling, moves)


def read_files(how: Receiving, entry: Receive) -> DataFrame:
    lines = lines_of(how, entry)
    return text_of(how, entry).mapInArrow(lines.__call__, OWN_COLUMNS + lines.reading.schema())


def text_of(how: Receiving, entry: Receive) -> DataFrame:
    """The rows of a location's files, as Spark reads them: (body, path, block, received_at)."""
    _, path = folder_of(entry)
    options = checked_options(entry)
    shape = _shape(entry, options)
    reader = open_files(how, "text", entry, options).options(**HANDED_OVER)
    reader = reader.option(MAX_ROW_BYTES, str(shape.most))  # for `row_sizes.py`
    cut = ("wholetext", "true") if shape.whole else ("lineSep", shape.between.decode())
    return (
        reader.option(*cut)
        .load(path)
        .select(
            F.col("value").cast("binary").alias("body"),
            F.col("_metadata.file_path").alias("path"),
            F.col("_metadata.file_block_start").alias("block"),
            F.col("_metadata.file_modification_time").alias("received_at"),
        )
    )


def lines_of(how: Receiving, entry: Receive) -> LineReader:
    """How a location's rows become messages, in a worker. Raises `UsageError`."""
    folder, _ = folder_of(entry)
    options = checked_options(entry)
    reading = how.reading(entry, entry.promote, _rows(how, entry, options))
    reading.check()
    return LineReader(reading, str(folder), _shape(entry, options))


def folder_of(entry: Receive) -> tuple[Path, str]:
    """Return the folder of a location and the path to read in it, both absolute; the folder is the part of the path before a pattern."""
    if entry.source.path is None:
        raise UsageError("the source names no path", where=f"location {entry.location}")
    path = entry.source.path.absolute()
    plain = next(part for part in (path, *path.parents) if not set(str(part)) & set("*?[{"))
    if not plain.exists():
        raise UsageError(
            f"the input folder {plain} does not exist", where=f"location {entry.location}", remedy="create it"
        )
    return plain, str(path)


def checked_options(entry: Receive) -> dict[str, str]:
    """The options of a known format, their names in lower case."""
    allowed = OPTIONS[entry.source.format] | FILE_OPTIONS
    for name in entry.source.options:
        if name.lower() not in allowed:
            problem = f"unknown option {name!r} of {entry.source.format}"
            remedy = f"it takes {', '.join(sorted(allowed))}"
            raise UsageError(problem, where=f"location {entry.location}", remedy=remedy)
    return {name.lower(): value for name, value in entry.source.options.items()}


def open_files(
    how: Receiving, kind: str, entry: Receive, options: Mapping[str, str]
) -> DataFrameReader | DataStreamReader:
    """Spark's reader for the files of a location, with the options that concern files."""
    reader = how.spark.read if how.static else how.spark.readStream
    chosen = {name: value for name, value in options.items() if name in FILE_OPTIONS}
    if not how.static:
        chosen = {"maxfileage": _MAX_FILE_AGE, **chosen}
    return reader.format(kind).options(**chosen)


def _splitter(entry: Receive, folders: tuple[str, ...]) -> Splitter | None:
    """The splitter of a location's messages; None: they aren't split."""
    split = entry.split
    if split is None:
        return None
    if split.function is not None:
        return ReturnedParts(Function(split.function, folders))
    if split.path is None:
        raise UsageError("split names neither a path nor a function", where=f"location {entry.location}")
    if split.path.startswith("$"):
        return JsonElements(split.path)
    return XmlElements(split.path, entry.namespaces)


def schema_of(spark: SparkSession, entry: Receive) -> StructType:
    """The columns that a location's `schema` names."""
    try:
        parsed = spark.createDataFrame([], entry.source.schema or "").schema
    except Exception as error:  # the parser's errors have no common type
        problem = f"the schema is not Spark DDL: {str(error).strip().splitlines()[0]}"
        raise UsageError(
            problem, where=f"location {entry.location}", remedy="such as id string, version bigint"
        ) from error
    return parsed


def _rows(how: Receiving, entry: Receive, options: Mapping[str, str]) -> RowFormat:
    returned = Returned(Function(entry.function, how.folders), entry.promote) if entry.function else None
    match entry.source.format:
        case "csv":
            columns = returned or CsvColumns(entry.promote, _dialect(entry, options))
            return CsvRows(columns, _csv_names(how.spark, entry, options), _shape(entry, options).between)
        case "json":
            return Documents(returned or JsonPaths(entry.promote, blank=entry.envelope is not None))
        case "xml":
            return Documents(returned or XmlPaths(entry.promote, entry.namespaces))
    if returned is None and entry.promote:
        raise UsageError(
            "plain text has no paths", where=f"location {entry.location}", remedy="promote it by a function"
        )
    return Documents(returned)


def _shape(entry: Receive, options: Mapping[str, str]) -> Shape:
    separator = options["linesep"].encode() if "linesep" in options else None
    try:
        most = row_bytes(options)
    except ValueError as error:
        raise UsageError(str(error), where=f"location {entry.location}") from error
    is_whole = _flag(entry, options, "multiline", default=entry.source.format == "xml")
    return Shape(most, separator, is_whole or _flag(entry, options, "wholetext", default=False))


def _flag(entry: Receive, options: Mapping[str, str], name: str, *, default: bool) -> bool:
    value = options.get(name, str(default)).lower()
    if value not in {"true", "false"}:
        raise UsageError(f"{name} must be true or false, not {value!r}", where=f"location {entry.location}")
    return value == "true"


def _dialect(entry: Receive, options: Mapping[str, str]) -> CsvDialect:
    separator = options.get("sep", options.get("delimiter", ","))
    quote, escape = options.get("quote", '"'), options.get("escape") or None
    for name, value in (("sep", separator), ("quote", quote), ("escape", escape or "\\")):
        if len(value) != 1 or value in "\r\n":
            raise UsageError(f"{name} must be one character, not {value!r}", where=f"location {entry.location}")
    # A quote that escapes itself is a doubled quote, the default without an escape.
    return CsvDialect(separator, quote, None if escape == quote else escape)


def _csv_names(spark: SparkSession, entry: Receive, options: Mapping[str, str]) -> tuple[str, ...] | None:
    """The names of the columns if the files have no header; None: they have a header."""
    if _flag(entry, options, "header", default=True):
        return None
    if entry.function is not None:
        return ()
    if entry.source.schema is None:
        raise UsageError(
            "CSV without a header needs a schema",
            where=f"location {entry.location}",
            remedy="schema: a string, b string",
        )
    return tuple(schema_of(spark, entry).names)
