"""Check that a micro-batch has no row larger than its location allows, in files that Spark reads itself.

Spark assembles a row in its own process, so the size has to be checked before. A row can be too large only in a large
file, or in a compressed file: such files, which are few, are read once more, without keeping more of a row than is
allowed. Skipped bytes are then missing in the sum of the sizes. The sizes of rows in `.gz` files are checked where they
are expanded (`gz_files.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from seriatim.errors import EnvironmentProblem
from seriatim.pipeline.files.source import MAX_ROW_BYTES
from seriatim.spark.receive.gz_files import NEW_LINE, ZIPPED
from seriatim.spark.receive.listed_files import execution_of, relations
from seriatim.spark.receive.noted_files import noted_files

# Files that Spark expands itself.
_COMPRESSED = (".bz2", ".deflate", ".gzip", ".lz4", ".snappy", ".zst", ".zstd")
# How many times larger than itself a file may become.
_MOST_TIMES = 1_000
# Hadoop skips rows of this many bytes and more. (A carriage return may be one more.)
_LONGEST = "mapreduce.input.linerecordreader.line.maxlength"
# A byte order mark at a file's beginning belongs to no row, and the last row may end without a separator.
_ASTRAY = 3
_REMEDY = "put a file without that in its place, or an empty one, and start again"


@dataclass(frozen=True, slots=True)
class _LargeFile:
    """A file in which a row may be too large: its path as Hadoop has it, its bytes, and the way it is read."""

    path: Any
    size: int
    options: Mapping[str, str]

    @property
    def most(self) -> int:
        return int(self.options[MAX_ROW_BYTES])

    def refused(self, problem: str) -> EnvironmentProblem:
        name = str(self.path.toString()).removeprefix("file:")
        text = f"the input file {name} {problem}; its location takes rows of {self.most:,} bytes (maxRowBytes)"
        return EnvironmentProblem(text, remedy=_REMEDY)


def check_row_sizes(session: SparkSession, query: Path, batch: int) -> None:
    """Check the files of a micro-batch; call it in the batch, before anything of it is computed."""
    compressed = any(_is_compressed(noted_file.uri) for noted_file in noted_files(query, batch))
    for file in _large_files(session, compressed=compressed):
        size = _expanded(session, file) if _is_compressed(file.path.getName()) else file.size
        if size <= file.most:
            continue
        if file.options.get("wholetext") == "true":
            raise file.refused(f"has more than {file.most:,} bytes")
        if size - _in_rows(session, file) > _ASTRAY:
            raise file.refused("has a larger row")


def _large_files(session: SparkSession, *, compressed: bool) -> Iterator[_LargeFile]:
    for relation in relations(execution_of(session)):
        options = _options(relation)
        if MAX_ROW_BYTES not in options:
            continue
        most = int(options[MAX_ROW_BYTES])
        if not compressed and relation.location().sizeInBytes() <= most:
            continue  # across the bridge to the JVM each file costs calls
        files = relation.location().allFiles()
        seen: set[str] = set()
        for place in range(files.size()):
            file = files.apply(place)
            path, size = file.getPath(), file.getLen()
            name = str(path.getName())
            if name.endswith(ZIPPED) or not (size > most or _is_compressed(name)) or str(path.toString()) in seen:
                continue
            seen.add(str(path.toString()))
            yield _LargeFile(path, size, options)


def _is_compressed(name: str) -> bool:
    return name.lower().endswith(_COMPRESSED)


def _options(relation: Any) -> dict[str, str]:
    """The options with which Spark reads these files, their names in lower case."""
    options, names = {}, relation.options().keysIterator()
    while names.hasNext():
        name = names.next()
        options[name.lower()] = relation.options().apply(name)
    return options


def _expanded(session: SparkSession, file: _LargeFile) -> int:
    """The expanded size of a compressed file in bytes; its content isn't kept."""
    conf = session._jsparkSession.sessionState().newHadoopConf()  # noqa: SLF001
    jvm: Any = session.sparkContext._jvm  # noqa: SLF001
    stream = jvm.org.apache.spark.io.HadoopCodecStreams.createInputStream(conf, file.path)
    try:
        size, room = 0, max(file.most, _MOST_TIMES * file.size)
        while size <= room:
            passed = stream.skip(2**26)
            if not passed:
                if stream.read() < 0:
                    return size
                passed = 1
            size += passed
    finally:
        stream.close()
    raise file.refused(
        f"has {file.size:,} bytes and becomes more than {_MOST_TIMES:,} times larger when it is expanded"
    )


def _in_rows(session: SparkSession, file: _LargeFile) -> int:
    """The number of bytes of a file in rows of at most the allowed size, and in their separators."""
    separator = file.options.get("linesep", NEW_LINE.decode())
    ends = len(separator.encode())
    reader = session.read.format("text").option("lineSep", separator).option(_LONGEST, str(file.most + ends + 2))
    rows = reader.option("__globPaths__", "false").load(file.path.toString())
    figures = rows.agg(F.coalesce(F.sum(F.octet_length("value")), F.lit(0)), F.count(F.lit(1))).first()
    assert figures is not None  # noqa: S101 - an aggregate without groups is one row
    return int(figures[0] + figures[1] * ends)
