"""Messages of the box as columns, in Arrow: what Spark reads.

Owns the columns and their types; knows nothing of Spark, and of queries only what their rows look like.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from seriatim.box.received import context_of
from seriatim.pipeline.types.box_properties import OWN
from seriatim.pipeline.types.python_values import given_converter

__all__ = ["COLUMNS", "ORDER_COLUMNS", "batches_of"]

_TICKET = pa.struct([("location", pa.string()), ("epoch", pa.int64()), ("number", pa.int64())])
_PART = pa.struct([("name", pa.string()), ("content_type", pa.string()), ("body", pa.binary())])
#: What every message has, besides its properties.
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
#: What it has in a queue.
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
_MOST_ROWS, _MOST_BYTES, _FETCHED = 10_000, 32 * 2**20, 500


def batches_of(
    fetch: Any, properties: Mapping[str, str], *, prefix: str = "", ordered: bool = True, dialogs: bool = False
) -> Iterator[pa.RecordBatch]:
    """The rows of ``read_*.sql``, as record batches.

    Args:
        fetch: gives at most so many rows, and none at the end.
        properties: the properties that get columns of their own, and their types.
        prefix: what the names of these columns begin with.
        ordered: whether the rows have the columns of a queue.
        dialogs: whether the properties are those that tell of a message's dialog.

    Yields:
        at most 10,000 rows and not much more than 32 MiB.
    """
    while rows := _some(fetch):
        yield _batch(rows, properties, prefix, ordered=ordered, dialogs=dialogs)


def _some(fetch: Any) -> list[Sequence[Any]]:
    found: list[Sequence[Any]] = []
    size = 0
    while len(found) < _MOST_ROWS and size < _MOST_BYTES:
        more = fetch(_FETCHED)
        if not more:
            break
        found += more
        size += sum(len(row[9]) + sum(len(body) for *_, body in row[10] or ()) for row in more)
    return found


def _batch(
    rows: Sequence[Sequence[Any]], properties: Mapping[str, str], prefix: str, *, ordered: bool, dialogs: bool
) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True))
    ids, kinds, locations, epochs, numbers, content_types, received, contexts, types, bodies, parts = columns[:11]
    ticket = pa.StructArray.from_arrays(
        [pa.array(locations, pa.string()), pa.array(epochs, pa.int64()), pa.array(numbers, pa.int64())],
        fields=list(_TICKET),
    )
    told = [None if each is None else [dict(zip(_PART.names, one, strict=True)) for one in each] for each in parts]
    own = (ids, kinds, locations, ticket, content_types, received, contexts, bodies, told)
    arrays = {
        name: values if isinstance(values, pa.Array) else pa.array(values, kind)
        for (name, kind), values in zip(COLUMNS.items(), own, strict=True)
    }
    if ordered:
        arrays |= {
            name: pa.array(values, kind)
            for (name, kind), values in zip(ORDER_COLUMNS.items(), columns[11:15], strict=True)
        }
    if properties:
        read: list[Mapping[str, Any]] = [context_of(text, one) for text, one in zip(contexts, types, strict=True)]
        if dialogs:
            read = [_of_dialog(context) for context in read]
        arrays |= {prefix + name: _property(read, name, kind) for name, kind in properties.items()}
    return pa.RecordBatch.from_pydict(arrays)


def _of_dialog(context: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a message's context says of its dialog, under the names of the columns."""
    found = context.get("dialog")
    return {**found, "dialog_sequence": found.get("sequence")} if isinstance(found, dict) else {}


def _property(contexts: Sequence[Mapping[str, Any]], name: str, kind: str) -> pa.Array:
    """A property's column; null where a message has none, or one that can't be of that type."""
    convert = given_converter(kind)

    def value(found: Any) -> Any:
        try:
            return None if found is None else convert(found)
        except (ValueError, ArithmeticError):
            return None

    return pa.array([value(context.get(name)) for context in contexts], arrow_type(kind))


def arrow_type(kind: str) -> pa.DataType:
    """The Arrow type of a property's."""
    digits = _DECIMAL.fullmatch(kind)
    return pa.decimal128(int(digits[1] or 10), int(digits[2] or 0)) if digits else _PLAIN[kind]


def own_names() -> frozenset[str]:
    """The names that no property's column can have."""
    return frozenset({*COLUMNS, *ORDER_COLUMNS, *OWN} - {"to", "correlation_id", "parent_id", "part", "parts"})
