"""Spark's format ``seriatim``: its options, and its readers and writers.

It knows the box only through the protocols `BoxFeed` and `Staging`; the caller that composes both passes functions that
open them.
"""

from __future__ import annotations

import uuid
from abc import abstractmethod
from collections.abc import Collection, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from seriatim.errors import UsageError
from seriatim.kernel.values.time import micros, seconds
from seriatim.pipeline.text.section import likely
from seriatim.spark.box.opening import Opening
from seriatim.spark.box.sink import BoxStreamWriter, BoxWriter, Staging, check_columns
from seriatim.spark.box.source import BoxFeed, BoxReader, BoxStreamReader, RefusedStreamReader, schema_of
from seriatim.spark.session.versions import STARTS_ARE_TOLD

_MESSAGES = 100_000
_WAIT_S = 30.0
_MOST_MESSAGES = 2**31 - 2
_MOST_FENCE = 2**53
# Of a number in an option's text.
_MOST_DIGITS = 18
_READING = frozenset({"maxMessagesPerTrigger", "pipeline", "prefix", "takeOver"})
_WRITING = frozenset(
    {"batch", "contract", "dialogBy", "fence", "fromService", "group", "sequence", "type", "wait", "writer"}
)
_KNOWN = ("dsn", "schema", "queue", "service", *_READING, *_WRITING)
#: The fields of `BoxOptions` that have the text of their option.
_TEXTS = (
    "dsn", "schema", "queue", "pipeline", "prefix", "type", "group", "sequence", "writer", "service", "from_service", "contract",
    "dialog_by",
)  # fmt: skip
#: Spark adds these itself.
_SPARKS = frozenset({"checkpointlocation", "path"})


@dataclass(frozen=True, slots=True)
class BoxOptions:
    #: The box; None: the value of ``SERIATIM_DSN``, or the embedded PostgreSQL.
    dsn: str | None = None
    schema: str | None = None
    queue: str | None = None
    #: The name under which a queue belongs to a query.
    pipeline: str = "spark"
    at_most: int = _MESSAGES
    prefix: str = ""
    #: Whether to take the queue from a checkpoint that no longer exists.
    takes_over: bool = False
    type: str | None = None
    group: str | None = None
    sequence: str | None = None
    #: The writer's name, for a frame that may be written again and has to be stored once.
    writer: str | None = None
    #: The number of the writer's frame, higher with each frame.
    batch: int = 0
    #: The number of the run that writes: frames of a run with a lower number than the box knows of this writer are refused.
    fence: int = 0
    #: The longest time that a batch waits for room in a full queue, seconds.
    wait_s: float = _WAIT_S
    #: The service to which rows are sent in dialogs, or whose messages are read.
    service: str | None = None
    from_service: str | None = None
    #: The contract of these dialogs; None: the contract that every box has.
    contract: str | None = None
    #: The column with the keys; each key has a dialog.
    dialog_by: str | None = None

    @classmethod
    def of(cls, options: Mapping[str, str]) -> BoxOptions:
        """Convert Spark's options, whose names are in lower case."""
        values = {name.lower(): value for name, value in options.items()}
        for name in values:
            if name not in {*(option.lower() for option in _KNOWN), *_SPARKS}:
                raise UsageError(f"unknown option {name!r} of the format seriatim", remedy=likely(name, _KNOWN))
        if values.get("path"):
            raise UsageError("a message box has no path", remedy='.option("queue", "…") names a queue')
        takes_over = values.get("takeover", "false").lower()
        if takes_over not in ("true", "false"):
            raise UsageError(f"takeOver must be true or false, not {takes_over!r}")
        if ("group" in values) != ("sequence" in values) or ("group" in values and "queue" not in values):
            raise UsageError(
                "group, sequence and queue must be given together", remedy="give all of them, or the queue alone"
            )
        if ("writer" in values) != ("batch" in values):
            raise UsageError(
                f"there is no {'batch' if 'writer' in values else 'writer'}",
                remedy="give both: the name of the writer, and the number of its frame, higher for each frame",
            )
        if "fence" in values and "writer" not in values:
            raise UsageError("there is no writer for the fence", remedy="give writer, batch and fence, or leave it out")
        if values.get("writer") == "":
            raise UsageError("writer is empty", remedy="name the writer, or leave out writer and batch")
        texts: dict[str, Any] = {
            name: value for name in _TEXTS if (value := values.get(name.replace("_", ""))) is not None
        }
        return cls(
            **texts,
            at_most=_whole("maxMessagesPerTrigger", values.get("maxmessagespertrigger", str(_MESSAGES)), 1),
            takes_over=takes_over == "true",
            batch=_whole("batch", values.get("batch", "0"), 0),
            fence=_whole("fence", values.get("fence", "0"), 0, _MOST_FENCE),
            wait_s=seconds(micros(values["wait"])) if "wait" in values else _WAIT_S,
        )

    @staticmethod
    def refuse(options: Mapping[str, str], others: Collection[str], what: str) -> None:
        folded = {name.lower(): name for name in others}
        for name in options:
            if (wrong := folded.get(name.lower())) is not None:
                raise UsageError(f"the option {wrong!r} of the format seriatim is for {what}", remedy="leave it out")

    @property
    def reads_queue(self) -> bool:
        return self.queue is not None or self.service is not None

    def check_dialogs(self) -> None:
        named = {"service": self.service, "fromService": self.from_service, "dialogBy": self.dialog_by}
        lacking = [name for name, value in named.items() if value is None]
        if len(lacking) == len(named) and self.contract is None:
            return
        if lacking:
            raise UsageError(
                f"there is no {lacking[0]} for the dialogs",
                remedy="service, fromService and dialogBy must be given together",
            )
        if self.queue is not None or self.group is not None:
            raise UsageError(
                "messages can't go both into a queue and into dialogs", remedy="give queue or service, not both"
            )


def _whole(name: str, text: str, least: int, most: int = _MOST_MESSAGES) -> int:
    if not text.isdecimal() or len(text) > _MOST_DIGITS or not least <= int(text) <= most:
        raise UsageError(f"{name} can't be {text!r:.80}", remedy=f"a whole number from {least} to {most:,}")
    return int(text)


class BoxFormat(DataSource):
    """The format; a subclass that is composed with a box opens the box's side."""

    @staticmethod
    @abstractmethod
    def feed(options: BoxOptions) -> BoxFeed:
        """Open the box for reading."""

    @staticmethod
    @abstractmethod
    def staging(options: BoxOptions) -> Staging:
        """Open the box for writing."""

    @classmethod
    def name(cls) -> str:
        return "seriatim"

    def schema(self) -> StructType:
        """The columns of a frame that is read; reads the declared properties from the box."""
        options = self._read_options()
        with closing(self.feed(options)) as feed:
            return schema_of(feed.properties(), options.prefix, ordered=options.reads_queue)

    def reader(self, schema: StructType) -> DataSourceReader:
        options = self._read_options()
        return BoxReader(Opening(self.feed, options), schema, options.prefix)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 -- Spark's name
        options = self._read_options()
        if not options.reads_queue:
            raise UsageError("a stream reads a queue", remedy='.option("queue", "…"); the spool is for spark.read')
        if not STARTS_ARE_TOLD:
            return RefusedStreamReader()
        return BoxStreamReader(Opening(self.feed, options), schema, options.at_most, options.prefix)

    def writer(self, schema: StructType, overwrite: bool) -> BoxWriter:
        options = self._checked(schema, overwrite=overwrite)
        self._open_once(options)
        # Frames of one writer differ in their numbers only.
        opening = Opening(self.staging, replace(options, batch=0))
        return BoxWriter(opening, options.writer or f"job {uuid.uuid4()}", options.batch)

    def streamWriter(self, schema: StructType, overwrite: bool) -> BoxStreamWriter:  # noqa: N802 -- Spark's name
        BoxOptions.refuse(self.options, ("writer", "batch", "fence"), "frames: a stream has its own")
        options = self._checked(schema, overwrite=overwrite)
        self._open_once(options)
        return BoxStreamWriter(Opening(self.staging, options))

    def _open_once(self, options: BoxOptions) -> None:
        """Check that the box exists, and the queue or service, before tasks run, even if a frame has no rows."""
        self.staging(options).close()

    def _read_options(self) -> BoxOptions:
        BoxOptions.refuse(self.options, _WRITING, "writing")
        options = BoxOptions.of(self.options)
        if options.queue is not None and options.service is not None:
            raise UsageError("queue and service can't be combined", remedy="give queue or service, not both")
        return options

    def _checked(self, schema: StructType, *, overwrite: bool) -> BoxOptions:
        BoxOptions.refuse(self.options, _READING, "reading")
        options = BoxOptions.of(self.options)
        if overwrite:
            raise UsageError("a box only supports the mode append", remedy='.mode("append")')
        options.check_dialogs()
        if options.type is None and options.service is None and "type" not in schema.names:
            raise UsageError("the messages have no type", remedy='a column "type", or .option("type", "…") for all')
        check_columns(schema, options.group, options.sequence, options.dialog_by)
        return options
