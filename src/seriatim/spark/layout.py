"""How the frame of a micro-batch is laid out for the workers that write it: which columns, and which text.

A delivered row is ``message_id, type, location, ticket, parent_id, part, parts, group, sequence, ordinal, late``, the
promoted properties, and ``body``; what the frame doesn't have (a ticket, parts) is left out. In Parquet ``ticket`` is
a struct and ``body`` binary; in JSON the one is an object and the other text; in CSV both are text (``crm/0/17``).

Destinations that are ordered by the same columns share their expressions, so that ten thousand of them make a plan as
small as one. Which port a row belongs to is looked up in the workers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from seriatim.pipeline.queue import Queue
from seriatim.spark.process import spread
from seriatim.spark.step import OUTPUTS

__all__ = ["Layout"]

_JSON = {"ignoreNullFields": "false", "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"}
_PARTS = ("parent_id", "part", "parts")
# Formats that have no structs.
_FLAT = frozenset({"csv", "jdbc"})

# Before the name of a column: what the message had there when it was put in order.
_KEPT = "_by_"

Kind = TypeVar("Kind")


@dataclass(frozen=True, slots=True)
class _Shape:
    """What two queues have in common whose rows are laid out alike."""

    group: str | None
    default_group: str | None
    sequence: str | None


class Layout:
    """The layout of a pipeline's frame.

    Args:
        queues: the destinations, in the order of their places.
        formats: the format of each one's port.
        properties: the promoted properties.
    """

    def __init__(self, queues: Sequence[Queue], formats: Sequence[str], properties: Sequence[str]) -> None:
        self._properties = tuple(properties)
        self._shapes = {queue.name: _Shape(queue.group, queue.default_group, queue.sequence) for queue in queues}
        self._lines = {queue.name for queue, kind in zip(queues, formats, strict=True) if kind == "json"}
        self._flat = any(kind in _FLAT for kind in formats)
        self._selected: dict[tuple[str, ...], list[Column]] = {}
        self._shared: dict[tuple[str | None, bool, tuple[str, ...]], tuple[tuple[str, str], ...]] = {}

    def columns(self, queue: Queue, kind: str, frame: Sequence[str]) -> tuple[tuple[str, str], ...]:
        """The columns of a delivered file, each with the column that it is taken from; none for lines of text.

        Args:
            queue: its queue.
            kind: the port's format.
            frame: the columns of the frame that is laid out.
        """
        if kind == "json":
            return ()
        key = (queue.sequence, kind in _FLAT, tuple(frame))
        if key not in self._shared:
            self._shared[key] = self._columns(*key)
        return self._shared[key]

    def _columns(self, sequence: str | None, flat: bool, frame: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
        source = {"ticket": "_ticket"} if flat else {}
        own = [(name, source.get(name, name)) for name in _own(frame)]
        order = [
            ("group", "_group"),
            ("sequence", source.get(sequence, f"{_KEPT}{sequence}") if sequence is not None else "_none"),
            ("ordinal", "ordinal"),
            ("late", "late"),
        ]
        return (*own, *order, *((name, name) for name in self._properties), ("body", "body"))

    def of(self, frame: DataFrame) -> DataFrame:
        """The frame as the workers write it.

        ``_destination, _disposition, _report`` and ``_line``, the text of the row where it is written as text; where a
        port takes columns also these, and ``_output`` where the frame has it.
        """
        if "ticket" in frame.columns:  # a location without tickets has structs of nulls
            frame = frame.withColumn("ticket", F.when(F.col("ticket.number").isNotNull(), F.col("ticket")))
        if OUTPUTS in frame.columns:  # group and sequence are the message's, whatever its outputs have there
            used = {name for shape in self._shapes.values() for name in (shape.group, shape.sequence) if name}
            frame = spread(frame.withColumns({f"{_KEPT}{name}": F.col(name) for name in sorted(used)}))
        names = tuple(frame.columns)
        if names not in self._selected:
            self._selected[names] = self._select(names)
        return frame.select(*self._selected[names])

    def _select(self, frame: Sequence[str]) -> list[Column]:
        columns = [
            F.col("destination").alias("_destination"),
            F.col("disposition").alias("_disposition"),
            F.when(F.col("disposition").isNull(), F.col("reason")).alias("_report"),
            self._line(frame).alias("_line"),
        ]
        if "_output" in frame:
            columns.append(F.col("_output"))
        return columns + self._typed(frame) if len(self._lines) < len(self._shapes) else columns

    def _typed(self, frame: Sequence[str]) -> list[Column]:
        typed = self._shapes.keys() - self._lines
        columns = [F.col(name) for name in (*_own(frame), "ordinal", "late", *self._properties)]
        # A body travels to a worker once: as a column, or in its line.
        here = F.col("disposition") == "released"
        if self._lines:
            here = here & F.col("destination").isin(sorted(typed))
        columns.append(F.when(here, F.col("body")).alias("body"))
        groups = {name: (shape.group, shape.default_group) for name, shape in self._shapes.items() if name in typed}
        columns.append(_by_destination(groups, lambda key: _group(*key, frame)).alias("_group"))
        columns.append(F.lit(None).cast("bigint").alias("_none"))
        sequences = sorted({shape.sequence for shape in self._shapes.values() if shape.sequence})
        columns += [F.col(_kept(name, frame)).alias(f"{_KEPT}{name}") for name in sequences]
        if self._flat and "ticket" in frame:
            columns.append(_ticket_text().alias("_ticket"))
        return columns

    def _line(self, frame: Sequence[str]) -> Column:
        """The row as text: of a released one if its port takes text, of any other always."""
        mine = {name: shape for name, shape in self._shapes.items() if name in self._lines}
        released = F.col("disposition") == "released"
        mixed = 0 < len(mine) < len(self._shapes)
        written = released & F.col("destination").isin(sorted(mine)) if mixed else released
        line = F.when(written, _by_destination(mine, lambda shape: self._released(shape, frame))) if mine else None
        aside = F.when(
            F.col("destination").isNotNull(), _by_destination(self._shapes, lambda shape: self._aside(shape, frame))
        ).otherwise(self._aside(_Shape(None, None, None), frame))
        rest = F.col("disposition").isNotNull() & ~released
        return F.when(rest, aside) if line is None else line.when(rest, aside)

    def _released(self, shape: _Shape, frame: Sequence[str]) -> Column:
        text = F.col("body").cast("string")
        first = [F.col(name) for name in (*_own(frame), "ordinal", "late", *self._properties)]
        place = len(_own(frame))
        first[place:place] = _order(shape, frame)
        plain = F.to_json(F.struct(*first, text.alias("body")), _JSON)
        no_text = F.lit(None).cast("string").alias("body")
        encoded = F.to_json(F.struct(*first, no_text, F.base64("body").alias("body_base64")), _JSON)
        return F.when(F.coalesce(F.is_valid_utf8(text), F.lit(True)), plain).otherwise(encoded)

    def _aside(self, shape: _Shape, frame: Sequence[str]) -> Column:
        """A row that was not released. A body that is no text is in base64, so that nothing of it is lost."""
        text = F.col("body").cast("string")
        return F.to_json(
            F.struct(
                "destination",
                "disposition",
                "reason",
                *_own(frame),
                *_order(shape, frame),
                *self._properties,
                F.when(F.is_valid_utf8(text), text).alias("body"),
                F.when(~F.is_valid_utf8(text), F.base64("body")).alias("body_base64"),
            ),
            _JSON,
        )


def _own(frame: Sequence[str]) -> tuple[str, ...]:
    """What a delivered row says of the message itself, as far as the frame has it."""
    return ("message_id", "type", "location", *(name for name in ("ticket", *_PARTS) if name in frame))


def _order(shape: _Shape, frame: Sequence[str]) -> tuple[Column, Column]:
    sequence = F.col(_kept(shape.sequence, frame)) if shape.sequence is not None else F.lit(None).cast("bigint")
    return _group(shape.group, shape.default_group, frame).alias("group"), sequence.alias("sequence")


def _kept(name: str, frame: Sequence[str]) -> str:
    """The column with what the message had by that name when it was put in order."""
    return f"{_KEPT}{name}" if f"{_KEPT}{name}" in frame else name


def _group(name: str | None, default: str | None, frame: Sequence[str]) -> Column:
    """The key by which the queue ordered the message, as text."""
    if name is None:
        return F.lit(None).cast("string")
    key = F.col(_kept(name, frame)).cast("string")
    if default is None:
        return key
    size = F.octet_length(key)
    fit = (size > 0) & (size <= 1024) & ~F.contains(key, F.lit("\0"))
    return F.when(fit, key).otherwise(default)


def _ticket_text() -> Column:
    ticket = [F.col(f"ticket.{name}").cast("string") for name in ("location", "epoch", "number")]
    return F.concat(ticket[0], F.lit("/"), ticket[1], F.lit("/"), ticket[2])


def _by_destination(kinds: Mapping[str, Kind], column_of: Callable[[Kind], Column]) -> Column:
    """A column that differs by destination: an expression for each kind, however many destinations are of it."""
    alike: dict[Kind, list[str]] = {}
    for name, kind in kinds.items():
        alike.setdefault(kind, []).append(name)
    (most, _), *others = sorted(alike.items(), key=lambda item: -len(item[1]))
    column = column_of(most)
    for kind, names in others:
        column = F.when(F.col("destination").isin(names), column_of(kind)).otherwise(column)
    return column
