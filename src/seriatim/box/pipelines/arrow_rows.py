"""Messages of the box as Arrow columns for Spark.

This module has the columns and their types. It doesn't know Spark, and of queries only the form of their rows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.json as pa_json
from psycopg.abc import Buffer

from seriatim.box.messages.received import context_of
from seriatim.box.pipelines.copied import columns_of
from seriatim.pipeline.types.box_properties import OWN, TRACE
from seriatim.pipeline.types.python_values import given_converter
from seriatim.pipeline.types.taken_from import SOURCE

_TICKET = pa.struct([("location", pa.string()), ("epoch", pa.int64()), ("number", pa.int64())])
_PART = pa.struct([("name", pa.string()), ("content_type", pa.string()), ("body", pa.binary())])
#: The columns of every message, besides its properties.
COLUMNS: Mapping[str, pa.DataType] = {
    "message_id": pa.string(),
    "type": pa.string(),
    "location": pa.string(),
    "ticket": _TICKET,
    "content_type": pa.string(),
    "received_at": pa.timestamp("us", "UTC"),
    "context": pa.string(),
    "body": pa.binary(),
    "parts": pa.list_(_PART),
}
#: Its columns in a queue.
ORDER_COLUMNS: Mapping[str, pa.DataType] = {
    "group": pa.string(),
    "sequence": pa.int64(),
    "ordinal": pa.int64(),
    "late": pa.bool_(),
}

_PLAIN: Mapping[str, pa.DataType] = {
    "string": pa.string(),
    "long": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "timestamp": pa.timestamp("us", "UTC"),
}
#: The types whose values JSON has.
_AS_IN_JSON = frozenset({"string", "long", "boolean"})
#: What ``read_*.sql`` returns, in this order, before `ORDER_COLUMNS`.
_READ: Mapping[str, pa.DataType] = {
    **dict.fromkeys(("message_id", "type", "location"), pa.string()),
    **dict.fromkeys(("epoch", "number"), pa.int64()),
    "content_type": pa.string(),
    "received_at": COLUMNS["received_at"],
    **dict.fromkeys(("context", "property_types"), pa.string()),
    **dict.fromkeys(("body", "parts"), pa.binary()),
}
_DECIMAL = re.compile(r"decimal(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?")
#: A record batch ends when it has that many rows or bytes.
_MOST_ROWS, _MOST_BYTES = 10_000, 32 * 2**20


def batches_of(
    portions: Iterable[Sequence[Buffer]],
    properties: Mapping[str, str],
    parts: Callable[[bytes], Sequence[Sequence[Any]]],
    *,
    prefix: str = "",
    ordered: bool = True,
    dialogs: bool = False,
) -> Iterator[pa.RecordBatch]:
    """The rows of ``read_*.sql``, as COPY gives them, as record batches; `parts` reads an array of parts."""
    some: list[Buffer] = []
    size = 0
    for rows in portions:
        some += rows
        size += sum(map(len, rows))
        if len(some) >= _MOST_ROWS or size >= _MOST_BYTES:
            yield _batch(some, properties, parts, prefix, ordered=ordered, dialogs=dialogs)
            some, size = [], 0
    if some:
        yield _batch(some, properties, parts, prefix, ordered=ordered, dialogs=dialogs)


def _batch(
    rows: Sequence[Buffer],
    properties: Mapping[str, str],
    parts: Callable[[bytes], Sequence[Sequence[Any]]],
    prefix: str,
    *,
    ordered: bool,
    dialogs: bool,
) -> pa.RecordBatch:
    columns = columns_of(rows, {**_READ, **(ORDER_COLUMNS if ordered else {})})
    columns["ticket"] = pa.StructArray.from_arrays(
        [columns["location"], columns["epoch"], columns["number"]], fields=list(_TICKET)
    )
    columns["parts"] = pa.array(
        [
            None if each is None else [dict(zip(_PART.names, part, strict=True)) for part in parts(each)]
            for each in columns["parts"].to_pylist()
        ],
        COLUMNS["parts"],
    )
    arrays = {name: columns[name] for name in ({**COLUMNS, **ORDER_COLUMNS} if ordered else COLUMNS)}
    found = None if dialogs else _plain(columns["context"], properties)
    if found is None:
        read: list[Mapping[str, Any]] = [
            context_of(text, None if types is None else json.loads(types))
            for text, types in zip(columns["context"].to_pylist(), columns["property_types"].to_pylist(), strict=True)
        ]
        if dialogs:
            read = [_of_dialog(context) for context in read]
        found = {name: _property(read, name, kind) for name, kind in properties.items()}
    return pa.RecordBatch.from_pydict(arrays | {prefix + name: column for name, column in found.items()})


def _plain(contexts: pa.Array, properties: Mapping[str, str]) -> dict[str, pa.Array] | None:
    """The columns of properties that Arrow reads from JSON as Python does; None: of some it may not."""
    if not properties:
        return {}
    if not _AS_IN_JSON.issuperset(properties.values()):
        return None
    schema = pa.schema([(name, _PLAIN[kind]) for name, kind in properties.items()])
    lines = b"\n".join(contexts.cast(pa.binary()).to_pylist())
    try:
        read = pa_json.read_json(
            pa.BufferReader(lines),
            pa_json.ReadOptions(use_threads=False, block_size=len(lines) + 1),
            pa_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
        )
    except pa.ArrowInvalid:  # as where a value is of another type
        return None
    return {name: read.column(name).combine_chunks() for name in properties}


def _of_dialog(context: Mapping[str, Any]) -> Mapping[str, Any]:
    """The dialog in a message's context, under the names of the columns."""
    dialog = context.get("dialog")
    return {**dialog, "dialog_sequence": dialog.get("sequence")} if isinstance(dialog, dict) else {}


def _property(contexts: Sequence[Mapping[str, Any]], name: str, kind: str) -> pa.Array:
    """A property's column; null if a message doesn't have the property, or its value doesn't fit the type."""
    convert = given_converter(kind)

    def value(item: Any) -> Any:
        try:
            return None if item is None else convert(item)
        except (ValueError, ArithmeticError):
            return None

    return pa.array([value(context.get(name)) for context in contexts], arrow_type(kind))


def arrow_type(kind: str) -> pa.DataType:
    digits = _DECIMAL.fullmatch(kind)
    return pa.decimal128(int(digits[1] or 10), int(digits[2] or 0)) if digits else _PLAIN[kind]


def own_names() -> frozenset[str]:
    """The reserved names, which no property's column can have."""
    given = {"to", "correlation_id", "parent_id", "part", "parts", *TRACE, *SOURCE}
    return frozenset({*COLUMNS, *ORDER_COLUMNS, *OWN} - given)
