"""Messages of the box as Arrow columns for Spark.

This module has the columns and their types. It doesn't know Spark, and of queries only the form of their rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from seriatim.box.messages.received import context_of
from seriatim.pipeline.types.box_properties import OWN, TRACE
from seriatim.pipeline.types.python_values import given_converter
from seriatim.pipeline.types.taken_from import SOURCE

__all__ = ["COLUMNS", "FETCHED", "ORDER_COLUMNS", "batches_of"]

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
_DECIMAL = re.compile(r"decimal(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?")
#: A record batch has that many rows, or fewer where they have that many bytes.
_MOST_ROWS, _MOST_BYTES, FETCHED = 10_000, 32 * 2**20, 500


def batches_of(
    portions: Iterable[Sequence[Any]],
    properties: Mapping[str, str],
    *,
    prefix: str = "",
    ordered: bool = True,
    dialogs: bool = False,
) -> Iterator[pa.RecordBatch]:
    """The rows of ``read_*.sql``, as record batches."""
    rows: list[Any] = []
    size = 0
    for portion in portions:
        rows += portion
        size += sum(len(row.body) + sum(len(body) for *_, body in row.parts or ()) for row in portion)
        if len(rows) >= _MOST_ROWS or size >= _MOST_BYTES:
            yield _batch(rows, properties, prefix, ordered=ordered, dialogs=dialogs)
            rows, size = [], 0
    if rows:
        yield _batch(rows, properties, prefix, ordered=ordered, dialogs=dialogs)


def _batch(
    rows: Sequence[Any], properties: Mapping[str, str], prefix: str, *, ordered: bool, dialogs: bool
) -> pa.RecordBatch:
    columns: dict[str, Any] = dict(zip(rows[0]._fields, zip(*rows, strict=True), strict=True))
    columns["ticket"] = pa.StructArray.from_arrays(
        [
            pa.array(columns["location"], pa.string()),
            pa.array(columns["epoch"], pa.int64()),
            pa.array(columns["number"], pa.int64()),
        ],
        fields=list(_TICKET),
    )
    columns["parts"] = [
        None if each is None else [dict(zip(_PART.names, part, strict=True)) for part in each]
        for each in columns["parts"]
    ]
    wanted = {**COLUMNS, **ORDER_COLUMNS} if ordered else COLUMNS
    arrays = {
        name: values if isinstance(values := columns[name], pa.Array) else pa.array(values, kind)
        for name, kind in wanted.items()
    }
    if properties:
        read: list[Mapping[str, Any]] = [
            context_of(text, types) for text, types in zip(columns["context"], columns["property_types"], strict=True)
        ]
        if dialogs:
            read = [_of_dialog(context) for context in read]
        arrays |= {prefix + name: _property(read, name, kind) for name, kind in properties.items()}
    return pa.RecordBatch.from_pydict(arrays)


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
    """The Arrow type of a property's type."""
    digits = _DECIMAL.fullmatch(kind)
    return pa.decimal128(int(digits[1] or 10), int(digits[2] or 0)) if digits else _PLAIN[kind]


def own_names() -> frozenset[str]:
    """The reserved names, which no property's column can have."""
    given = {"to", "correlation_id", "parent_id", "part", "parts", *TRACE, *SOURCE}
    return frozenset({*COLUMNS, *ORDER_COLUMNS, *OWN} - given)
