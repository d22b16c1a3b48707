"""Delivering: one sink for all ports, one Spark job for each micro-batch.

Owns which columns go where. The job that runs the frame also writes the files, so the frame is run once
and needs no keeping in memory; `port.py` puts the files in place. Rows that were not released go to the
set-aside port with disposition and reason.

A delivered row is ``message_id, type, location, group, sequence, ordinal, late``, the promoted properties,
and ``body``. In Parquet ``body`` is binary, in JSON and CSV it is text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from seriatim.errors import UsageError
from seriatim.pipeline.declaration import Deliver, Pipeline
from seriatim.pipeline.queue import Queue
from seriatim.spark.parts import ANSWER, Outlet, Parts, check_options, is_typed
from seriatim.spark.port import Port
from seriatim.spark.receive import promoted

__all__ = ["SET_ASIDE", "Delivered", "Sink", "StreamingQuery", "start"]

#: The name of the port for what was not released.
SET_ASIDE = "set-aside"

_JSON = {"ignoreNullFields": "false", "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"}


@dataclass(frozen=True, slots=True)
class Delivered:
    """What a micro-batch brought.

    Args:
        batch: its id.
        counts: how many messages by (destination, disposition).
        reports: what the operator says of its state, a JSON text a bucket.
    """

    batch: int
    counts: Mapping[tuple[str, str], int]
    reports: tuple[str, ...]


class Sink:
    """The sink of a pipeline's query; called with each micro-batch.

    Args:
        pipeline: which destinations there are and where they are delivered.
        identity: what tells one checkpoint from another; ports belong to one.
        set_aside: the folder for what was not released.
        delivered: called in the driver when a batch is in place in all ports.

    Raises:
        UsageError: a format or option that can't be delivered.
        CheckpointMismatch: a port belongs to another checkpoint.
        EnvironmentProblem: a port can't be written.
    """

    def __init__(
        self, pipeline: Pipeline, identity: str, set_aside: Path, delivered: Callable[[Delivered], None]
    ) -> None:
        self._properties = tuple(promoted(pipeline.receive))
        self._queues = [destination.queue for destination in pipeline.route]
        self._ports = [_port(destination.queue.name, destination.deliver) for destination in pipeline.route]
        self._ports.append(Port(SET_ASIDE, set_aside.absolute(), "json"))
        self._delivered = delivered
        for port in self._ports:
            check_options(port)
        for port in self._ports:
            port.claim(pipeline.name, identity)

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Deliver a micro-batch; once more if it was delivered before."""
        for port in self._ports:
            port.begin()
        outlets = tuple(
            Outlet(port, _file_columns(queue, self._properties) if is_typed(port) else ())
            for port, queue in zip(self._ports, [*self._queues, None], strict=True)
        )
        work = Parts(outlets)
        answers = self._laid_out(frame).mapInArrow(work.__call__, ANSWER).collect()
        for place, port in enumerate(self._ports):
            port.publish(batch, [(row.text, row.name) for row in answers if row.kind == "part" and row.port == place])
        self._delivered(_outcome(batch, answers))

    def _laid_out(self, frame: DataFrame) -> DataFrame:
        """The frame as the workers write it: where to, the text of the row, and columns where a port takes them."""
        port, line, group = F.lit(None).cast("int"), F.lit(None).cast("string"), F.lit(None).cast("string")
        typed = F.lit(False)
        for place, queue in enumerate(self._queues):
            here = F.col("destination") == queue.name
            released = here & (F.col("disposition") == "released")
            aside = here & (F.col("disposition") != "released")
            port = F.when(released, place).when(aside, len(self._queues)).otherwise(port)
            line = F.when(aside, _set_aside_line(queue, self._properties)).otherwise(line)
            if is_typed(self._ports[place]):
                typed = typed | released
                group = F.when(here, _group(queue)).otherwise(group)
            else:
                line = F.when(released, _line(queue, self._properties)).otherwise(line)
        columns = [
            port.alias("_port"),
            F.col("destination").alias("_destination"),
            F.col("disposition").alias("_disposition"),
            F.when(F.col("disposition").isNull(), F.col("reason")).alias("_report"),
            line.alias("_line"),
        ]
        if any(is_typed(one) for one in self._ports):
            columns += [
                F.col(name) for name in ("message_id", "type", "location", "ordinal", "late", *self._properties)
            ]
            # A body travels to a worker once: as a column, or in its line.
            columns += [F.when(typed, F.col("body")).alias("body"), group.alias("_group")]
            columns += [F.lit(None).cast("bigint").alias("_none")]
        return frame.select(*columns)


def _port(name: str, deliver: Deliver) -> Port:
    if deliver.path is None:
        raise UsageError("the port names no path", where=f"destination {name}")
    return Port(name, deliver.path.absolute(), deliver.format, dict(deliver.options))


def _file_columns(queue: Queue | None, properties: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """The columns of a delivered file, each with the column that it is taken from."""
    sequence = (queue.sequence if queue is not None else None) or "_none"
    own = [(name, name) for name in ("message_id", "type", "location")]
    order = [("group", "_group"), ("sequence", sequence), ("ordinal", "ordinal"), ("late", "late")]
    return (*own, *order, *((name, name) for name in properties), ("body", "body"))


def _group(queue: Queue) -> Column:
    """The key by which the queue ordered the message, as text."""
    if queue.group is None:
        return F.lit(None).cast("string")
    key = F.col(queue.group).cast("string")
    if queue.default_group is None:
        return key
    size = F.octet_length(key)
    fit = (size > 0) & (size <= 1024) & ~F.contains(key, F.lit("\0"))
    return F.when(fit, key).otherwise(queue.default_group)


def _sequence(queue: Queue) -> Column:
    return F.col(queue.sequence) if queue.sequence is not None else F.lit(None).cast("bigint")


def _line(queue: Queue, properties: Sequence[str]) -> Column:
    """A released row as JSON."""
    return F.to_json(
        F.struct(
            "message_id",
            "type",
            "location",
            _group(queue).alias("group"),
            _sequence(queue).alias("sequence"),
            "ordinal",
            "late",
            *properties,
            F.col("body").cast("string").alias("body"),
        ),
        _JSON,
    )


def _set_aside_line(queue: Queue, properties: Sequence[str]) -> Column:
    """A row that was not released as JSON. A body that is no text is in base64, so that nothing of it is lost."""
    text = F.col("body").cast("string")
    return F.to_json(
        F.struct(
            "destination",
            "disposition",
            "reason",
            "message_id",
            "type",
            "location",
            _group(queue).alias("group"),
            _sequence(queue).alias("sequence"),
            *properties,
            F.when(F.is_valid_utf8(text), text).alias("body"),
            F.when(~F.is_valid_utf8(text), F.base64("body")).alias("body_base64"),
        ),
        _JSON,
    )


def _outcome(batch: int, answers: Sequence[Row]) -> Delivered:
    counts: Counter[tuple[str, str]] = Counter()
    for row in answers:
        if row.kind == "count":
            counts[row.destination, row.disposition] += row.rows
    return Delivered(batch, dict(counts), tuple(row.text for row in answers if row.kind == "report"))


def start(frame: DataFrame, sink: Sink, *, name: str, checkpoint: Path, trigger_s: float | None) -> StreamingQuery:
    """Start the query that feeds `sink`.

    Args:
        frame: a streaming frame of decided rows.
        sink: where they go.
        name: the query's name.
        checkpoint: Spark's folder of it.
        trigger_s: seconds between the starts of two micro-batches; 0: as fast as it goes; None: one
            micro-batch only, which is the one in flight if there is one.
    """
    writer = frame.writeStream.queryName(name).option("checkpointLocation", str(checkpoint))
    if trigger_s is None:
        writer = writer.trigger(once=True)
    else:
        writer = writer.trigger(processingTime=f"{round(trigger_s * 1000)} milliseconds")
    return writer.foreachBatch(sink).start()
