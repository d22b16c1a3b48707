"""The targets of a destination's finished batches: a folder of files, or any sink of Spark.

A folder takes a batch exactly once. Spark's other writers decide themselves about a batch that is written twice, so
they are labelled *at least once*: after a kill between the write and the removal from the outbox it is written again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from itertools import groupby
from pathlib import Path
from typing import Any, Protocol

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from seriatim.errors import EnvironmentProblem, SeriatimError
from seriatim.pipeline.declared.pipeline import BOX
from seriatim.spark.deliver.port import Port
from seriatim.spark.resequence.number_columns import SHOWN
from seriatim.spark.session.versions import spark_schema

_MOST = 300
#: The fields by which a reader of a Kafka topic drops repeated records.
_HEADERS = ("message_id", "ordinal", "incarnation")
#: The same, where two runs write to the topic: their ordinals may differ.
_NUMBERED = ("message_id", "sequence")
#: How long a batch waits for room in a queue of a box before its destination counts as waiting.
_WAIT = "5s"
#: Asks the message box for the last batch of a writer; None: it has none.
LastBatch = Callable[[str], int | None]
_OURS = re.compile(r"seriatim\.errors\.\w+: ")


class Target(Protocol):
    def claim(self) -> None:
        """Check that it can be written and belongs to this pipeline."""

    def take(self, batch: int, folder: Path) -> None:
        """Take a batch whose files are in a folder, after a claim. Raises any exception if it fails."""

    def newest_batch(self) -> int | None:
        """The number of the last batch that it has; None: it has none, or can't know. Raises any exception if it can't be asked."""


class Folder:
    def __init__(self, port: Port, pipeline: str, identity: str) -> None:
        self.port = port
        self._pipeline = pipeline
        self._identity = identity
        self._disk: int | None = None

    def claim(self) -> None:
        """See `Target`. If a disk is unmounted, an empty folder on the disk below appears in its place. So within a run a port is made anew
        only on the disk where it was.
        """
        try:
            moved = self._disk is not None and not self.port.is_signed() and self.port.disk() != self._disk
        except OSError as error:
            raise EnvironmentProblem(f"can't deliver: {error.strerror}", where=str(self.port.root)) from error
        if moved:
            raise EnvironmentProblem(
                "the folder is gone, and another disk is mounted in its place",
                where=str(self.port.root),
                remedy="mount the former disk again, or restart the run to deliver to the new one",
            )
        self.port.claim(self._pipeline, self._identity)
        self._disk = self.port.disk()

    def take(self, batch: int, folder: Path) -> None:
        self.port.take(batch, folder)

    def newest_batch(self) -> int | None:
        return max(self.port.batches(), default=None)


class SparkSink:
    def __init__(
        self,
        session: SparkSession,
        format: str,  # noqa: A002 - the word of the file
        path: Path | None,
        options: Mapping[str, str],
        *,
        by_number: bool = False,
    ) -> None:
        self._session = session
        self._format = format
        self._path = path
        self._options = dict(options)
        self._headers = _NUMBERED if by_number else _HEADERS

    def claim(self) -> None:
        """See `Target`. Only a write shows whether Spark can write."""

    def take(self, batch: int, folder: Path) -> None:
        """See `Target`. The rows of each task of the pipeline become one task of the writer, in their order."""
        self._write(folder, {})

    def newest_batch(self) -> int | None:
        return None

    def rows(self, folder: Path) -> DataFrame:
        """The rows of a batch as the writer gets them: a task for each task of ours, in its order."""
        tasks = [reduce(DataFrame.unionAll, map(self._read, files)).coalesce(1) for files in _by_task(folder)]
        return reduce(DataFrame.unionAll, tasks)

    def _write(self, folder: Path, options: Mapping[str, str]) -> None:
        writer = self.rows(folder).write.format(self._format).mode("append")
        writer = writer.options(**self._options).options(**options)
        writer.save(str(self._path.absolute()) if self._path is not None else None)

    def _read(self, file: Path) -> DataFrame:
        schema = spark_schema(pq.read_schema(file))
        frame = self._session.read.schema(schema).parquet(str(file))
        return _records(frame, self._headers) if self._format.lower() == "kafka" else frame


class BoxSink(SparkSink):
    """A message box, which takes a batch exactly once: it records the last batch of each writer."""

    def __init__(
        self, session: SparkSession, writer: str, options: Mapping[str, str], fence: int, last_batch: LastBatch
    ) -> None:
        super().__init__(session, BOX, None, {**options, "writer": writer, "fence": str(fence), "wait": _WAIT})
        self._writer = writer
        self._last_batch = last_batch
        # Columns that aren't properties: those that the box sets, and those that only gave the order.
        used = {options.get("group"), options.get("sequence"), options.get("dialogBy")}
        self._left_out = [
            name
            for name in ("ticket", "group", "sequence", "ordinal", "late", *SHOWN, "incarnation")
            if name not in used
        ]

    def take(self, batch: int, folder: Path) -> None:
        # Spark looks for Python's formats only in the session that is active in the thread.
        jvm: Any = self._session._jvm  # noqa: SLF001 -- as PySpark does
        jvm.SparkSession.setActiveSession(self._session._jsparkSession)  # noqa: SLF001
        self._write(folder, {"batch": str(batch)})

    def newest_batch(self) -> int | None:
        return self._last_batch(self._writer)

    def _read(self, file: Path) -> DataFrame:
        return super()._read(file).drop(*self._left_out)


def _records(frame: DataFrame, names: tuple[str, ...]) -> DataFrame:
    """Rows as Kafka's sink takes them: the group is the key, so that a group stays in one partition. Other columns stay behind, because the
    sink reads columns by name, and a property may be called `partition`.
    """
    headers = [
        F.struct(F.lit(name).alias("key"), F.col(name).cast("string").cast("binary").alias("value"))
        for name in names
        if name in frame.columns
    ]
    return frame.select(
        F.col("group").cast("string").alias("key"),
        F.col("body").alias("value"),
        F.filter(F.array(*headers), lambda header: header["value"].isNotNull()).alias("headers"),
    )


def _by_task(folder: Path) -> Iterator[list[Path]]:
    files = sorted(folder.glob("part-*"))
    return (list(group) for _, group in groupby(files, key=lambda file: file.name[: len("part-00000")]))


def reason_of(error: Exception) -> str:
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror or error}"
    if isinstance(error, SeriatimError):
        return str(error)
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    ours = [line.partition(": ")[2] for line in lines if _OURS.match(line)]
    if ours:  # our side of the data source raised it, at the end of a traceback
        return ours[-1]
    reasons = [
        line.removeprefix(": ") for line in lines if not line.startswith(("An error occurred while calling", "at "))
    ]
    first = next(iter(reasons or lines), type(error).__name__)
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    text = first if not causes or causes[-1] in first else f"{first} ({causes[-1]})"
    return text if len(text) <= _MOST else f"{text[:_MOST]}…"
