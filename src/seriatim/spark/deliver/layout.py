"""The layout of a micro-batch's frame for the workers that write it: its columns, and its text.

A delivered row is ``message_id, type, location, ticket, parent_id, part, parts, group, sequence, ordinal, late``, the promoted properties,
and ``body``; behind ``late`` a destination whose messages cover several numbers has ``overlaps``, one that delivers partial sets
``partial`` and ``missing``, one that was added again ``incarnation``; columns that the frame doesn't have (a ticket, parts) are left
out. In Parquet ``ticket`` is a struct and ``body`` binary; in JSON ``ticket`` is an object and ``body`` text; in CSV both are text
(``crm/0/17``).

Destinations that are ordered by the same columns share their expressions, so that the plan for ten thousand
destinations is as small as for one. The workers look up the port of each row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from seriatim.pipeline.bodies.envelopes.registry import has_parts
from seriatim.pipeline.declared.pipeline import DROP, TABLE, Pipeline
from seriatim.pipeline.declared.queue import Queue
from seriatim.pipeline.declared.queue_parts import WHOLE_QUEUE
from seriatim.spark.deliver.set_aside_reasons import without_place
from seriatim.spark.process.stage import properties, spread
from seriatim.spark.process.step import OUTPUTS
from seriatim.spark.resequence.number_columns import shown_of

#: Spark's options for rows as JSON.
JSON_OPTIONS = {"ignoreNullFields": "false", "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"}
_PARTS = ("parent_id", "part", "parts")
_LEFT = (("ordinal", "ordinal"), ("late", "late"))
#: Columns of the operator: the number as the producer has it, which becomes ``sequence``, and the missing numbers of a partial set.
_UNWRAPPED, _MISSING = "_unwrapped", "_missing"
#: The missing numbers as JSON, for formats without lists.
_MISSING_TEXT = "_missing_text"
#: The incarnation of a destination that was added again, or forgets groups.
_INCARNATION = "incarnation"
# Formats that have no structs.
_FLAT = frozenset({"csv", "jdbc", TABLE})

# The prefix of a column's name for the values that the message had when it was put in order.
_KEPT = "_by_"

Kind = TypeVar("Kind")


@dataclass(frozen=True, slots=True)
class _Shape:
    """The properties that queues share whose rows have the same layout."""

    group: str | None
    default_group: str | None
    sequence: str | None
    incarnation: int = 0
    forgets: bool = False
    #: The columns of `SHOWN` that it has.
    says: tuple[str, ...] = ()

    @property
    def turns(self) -> bool:
        """Whether its numbers turn over, as a producer's counter does."""
        return "unwrapped" in self.says

    @property
    def more(self) -> list[str]:
        return [name for name in self.says if name != "unwrapped"]


@dataclass(frozen=True, slots=True)
class DepartedQueue:
    """A destination that was removed: as much of it as is needed to write its messages, which are dead."""

    name: str
    group: str | None
    sequence: str | None
    default_group: str | None


class Layout:
    def __init__(
        self,
        queues: Sequence[Queue],
        formats: Sequence[str],
        properties: Sequence[str],
        incarnations: Mapping[str, int] | None = None,
        departed: Sequence[DepartedQueue] = (),
    ) -> None:
        self._properties = tuple(properties)
        # A column that isn't promoted any more is null.
        known = {*self._properties, "location", "type", "message_id", "ticket", "parent_id", "part", "parts"}

        def shape(queue: Queue | DepartedQueue) -> _Shape:
            incarnation = (incarnations or {}).get(queue.name, 0)
            if isinstance(queue, Queue):
                own = queue.group
                forgets = own.expire_to == "nothing"
                return _Shape(own.by, own.default, queue.numbered_by, incarnation, forgets, shown_of(queue))
            group, sequence = (name if name in known else None for name in (queue.group, queue.sequence))
            return _Shape(group, queue.default_group, sequence, incarnation, forgets=False)

        self._shapes = {departed_queue.name: shape(departed_queue) for departed_queue in departed} | {
            queue.name: shape(queue) for queue in queues
        }
        self._lines = {queue.name for queue, kind in zip(queues, formats, strict=True) if kind == "json"}
        self._dropped = {queue.name for queue, kind in zip(queues, formats, strict=True) if kind == DROP}
        self._dropped |= {departed_queue.name for departed_queue in departed} - {queue.name for queue in queues}
        self._flat = any(kind in _FLAT for kind in formats)
        self._selected: dict[tuple[str, ...], list[Column]] = {}
        self._shared: dict[tuple[_Shape, bool, tuple[str, ...]], tuple[tuple[str, str], ...]] = {}

    def columns(self, queue: Queue, kind: str, rows: T.StructType) -> tuple[tuple[str, str], ...]:
        """The columns of a delivered file, each with its column in the frame; none for lines of text."""
        if kind == "json":
            return ()
        key = (self._shapes[queue.name], kind in _FLAT, tuple(rows.names))
        if key not in self._shared:
            self._shared[key] = self._columns(*key[:2], rows)
        return self._shared[key]

    def _columns(self, shape: _Shape, flat: bool, rows: T.StructType) -> tuple[tuple[str, str], ...]:
        source = {"ticket": "_ticket", "missing": _MISSING_TEXT} if flat else {}
        own = [(name, source.get(name, name)) for name in _own(rows.names)]
        sequence = "" if shape.sequence is None else source.get(shape.sequence, _kept(shape.sequence, rows.names))
        group = _group_as_it_is(shape, rows) if shape.group is not None else ""
        sequence = _UNWRAPPED if shape.turns else sequence
        order = [("group", "_group" if group is None else group), ("sequence", sequence), *_LEFT]
        order += [(name, source.get(name, f"_{name}")) for name in shape.more]
        if shape.forgets:  # counted by group, including the destination's incarnation
            order.append((_INCARNATION, _INCARNATION))
        elif shape.incarnation:
            order.append((_INCARNATION, f"={shape.incarnation}"))
        return (*own, *order, *((name, name) for name in self._properties), ("body", "body"))

    def is_straight(self, rows: T.StructType) -> bool:
        """Whether files of columns can be written from the unchanged rows."""
        return OUTPUTS not in rows.names and not self._computed(rows)

    def rows(self, frame: DataFrame) -> DataFrame:
        """Return the rows with the columns that column files need in addition, a row for each output of a message. Group and sequence are
        those of the message, whatever its outputs have there.
        """
        if OUTPUTS in frame.columns:
            named = {name for shape in self._shapes.values() for name in (shape.group, shape.sequence) if name}
            used = named - {WHOLE_QUEUE}
            kept = {f"{_KEPT}{name}": F.col(name) for name in sorted(used)}
            frame = spread(_with_whole_tickets(frame).withColumns(kept))
        return frame.withColumns(self._computed(frame.schema))

    def _computed(self, rows: T.StructType) -> dict[str, Column]:
        typed = {name: shape for name, shape in self._shapes.items() if name not in self._lines | self._dropped}
        computed = {}
        if any(shape.group is not None and _group_as_it_is(shape, rows) is None for shape in typed.values()):
            groups = {name: (shape.group, shape.default_group) for name, shape in typed.items()}
            computed["_group"] = _by_destination(groups, lambda key: _group(*key, rows.names))
        if self._flat and "ticket" in rows.names:
            computed["_ticket"] = _ticket_text()
        if self._flat and any("missing" in shape.says for shape in typed.values()):
            computed[_MISSING_TEXT] = F.to_json(_MISSING)
        return computed

    def lines(self, frame: DataFrame) -> DataFrame:
        """The rows as text. ``destination, disposition``, ``_line``, ``reason`` of a row that is no message or is set aside, and
        ``_output`` where the frame has it.
        """
        frame = _with_whole_tickets(frame)
        names = tuple(frame.columns)
        if names not in self._selected:
            self._selected[names] = [
                F.col("destination"),
                F.col("disposition"),
                F.when(F.col("disposition").isNull(), F.col("reason"))
                .when(~F.col("disposition").isin("released", "unrouted", "void", "copy"), without_place())
                .alias("reason"),
                self._line(frame).alias("_line"),
                *([F.col("_output")] if "_output" in names else []),
            ]
        return frame.select(*self._selected[names])

    def _line(self, rows: DataFrame) -> Column:
        """The row as text: for a released row if its port takes text, for any other row always."""
        frame = rows.columns
        shapes = {name: shape for name, shape in self._shapes.items() if name in self._lines}
        released = F.col("disposition") == "released"
        aside = F.when(
            F.col("destination").isNotNull(), _by_destination(self._shapes, lambda shape: self._aside(shape, frame))
        ).otherwise(self._aside(_Shape(None, None, None), frame))
        rest = F.when(F.col("disposition").isNotNull() & ~F.col("disposition").isin("released", "void", "copy"), aside)
        if not shapes:
            return rest
        written = released & F.col("destination").isin(sorted(shapes)) if len(shapes) < len(self._shapes) else released
        return F.when(written, _by_destination(shapes, lambda shape: self._released(shape, frame))).otherwise(rest)

    def _released(self, shape: _Shape, frame: Sequence[str]) -> Column:
        text = F.col("body").cast("string")
        first = [F.col(name) for name in _own(frame)]
        group, sequence = _order(shape, frame)
        first += [group, F.col(_UNWRAPPED).alias("sequence") if shape.turns else sequence]
        first += [F.col("ordinal"), F.col("late"), *(F.col(f"_{name}").alias(name) for name in shape.more)]
        first += [F.col(_INCARNATION)] if shape.forgets else _incarnation(shape)
        first += [F.col(name) for name in self._properties]
        plain = F.to_json(F.struct(*first, text.alias("body")), JSON_OPTIONS)
        no_text = F.lit(None).cast("string").alias("body")
        encoded = F.to_json(F.struct(*first, no_text, F.base64("body").alias("body_base64")), JSON_OPTIONS)
        return F.when(F.coalesce(F.is_valid_utf8(text), F.lit(True)), plain).otherwise(encoded)

    def _aside(self, shape: _Shape, frame: Sequence[str]) -> Column:
        """The text of a row that was not released."""
        order = [*_order(shape, frame), *_incarnation(shape)]
        said = ("destination", "disposition", "reason")
        return F.to_json(F.struct(*said, *_own(frame), *order, *self._properties, *body_as_text()), JSON_OPTIONS)


def flat_columns(pipeline: Pipeline) -> dict[str, str]:
    """The columns of a delivered row in a format that has no structs, with their Spark types. Destinations that were added again have one
    more.
    """
    ticket = {"ticket": "string"} if any(location.stamp is not None for location in pipeline.receive) else {}
    parts = {"parent_id": "string", "part": "bigint", "parts": "bigint"}
    parts = parts if has_parts(pipeline.receive) else {}
    first = {"message_id": "string", "type": "string", "location": "string"}
    order = {"group": "string", "sequence": "bigint", "ordinal": "bigint", "late": "boolean"}
    return {**first, **ticket, **parts, **order, **properties(pipeline), "body": "binary"}


def body_as_text() -> list[Column]:
    """The body, and in Base64 one that isn't text, so that nothing is lost."""
    text = F.col("body").cast("string")
    is_text = F.is_valid_utf8(text)
    return [F.when(is_text, text).alias("body"), F.when(~is_text, F.base64("body")).alias("body_base64")]


def _with_whole_tickets(frame: DataFrame) -> DataFrame:
    """The frame with null in place of tickets of nulls, which a location without `stamp` has."""
    if "ticket" not in frame.columns:
        return frame
    return frame.withColumn("ticket", F.when(F.col("ticket.number").isNotNull(), F.col("ticket")))


def _own(frame: Sequence[str]) -> tuple[str, ...]:
    """The columns of a delivered row about the message itself, as far as the frame has them."""
    return ("message_id", "type", "location", *(name for name in ("ticket", *_PARTS) if name in frame))


def _order(shape: _Shape, frame: Sequence[str]) -> tuple[Column, Column]:
    sequence = F.col(_kept(shape.sequence, frame)) if shape.sequence is not None else F.lit(None).cast("bigint")
    return _group(shape.group, shape.default_group, frame).alias("group"), sequence.alias("sequence")


def _incarnation(shape: _Shape) -> list[Column]:
    return [F.lit(shape.incarnation).alias(_INCARNATION)] if shape.incarnation else []


def _kept(name: str, frame: Sequence[str]) -> str:
    """The column with the value that the message had under that name when it was put in order."""
    return f"{_KEPT}{name}" if f"{_KEPT}{name}" in frame else name


def _group_as_it_is(shape: _Shape, rows: T.StructType) -> str | None:
    """The column with the group's text; None: it has to be computed."""
    name = _kept(shape.group or "", rows.names)
    return name if shape.default_group is None and isinstance(rows[name].dataType, T.StringType) else None


def _group(name: str | None, default: str | None, frame: Sequence[str]) -> Column:
    """The key by which the queue ordered the message, as text."""
    if name is None or name == WHOLE_QUEUE:
        return F.lit(None if name is None else default).cast("string")
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
    """A column that differs by destination: one expression for each kind, whatever the number of destinations."""
    alike: dict[Kind, list[str]] = {}
    for name, kind in kinds.items():
        alike.setdefault(kind, []).append(name)
    (most, _), *rarer = sorted(alike.items(), key=lambda item: -len(item[1]))
    column = column_of(most)
    for kind, names in rarer:
        column = F.when(F.col("destination").isin(names), column_of(kind)).otherwise(column)
    return column
