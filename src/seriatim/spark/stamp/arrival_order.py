"""The error for an order of arrival that is not total, which shows two messages."""

from collections.abc import Sequence

import pyarrow as pa

from seriatim.errors import ColumnError

_MOST_CHARACTERS, _MOST_COLUMNS = 80, 4


def not_total(messages: pa.Table, order_by: Sequence[str], location: str) -> ColumnError:
    """The error for two messages of one location that are equal in all columns of the order."""
    first, second = (_name(messages, row, order_by) for row in range(2))
    alike = ", ".join(f"{name} {_shown(messages, name, 0)}" for name in order_by)
    return ColumnError(
        f"the order of arrival is not total: {first} and {second} both have {alike}",
        where=f"location {_shown(messages, location, 0)}",
        remedy="order_by needs columns that differ for any two messages of a location and batch",
    )


def _name(messages: pa.Table, row: int, order_by: Sequence[str]) -> str:
    if "message_id" in messages.column_names and messages.column("message_id")[row].is_valid:
        return f"message {_shown(messages, 'message_id', row)}"
    others = [
        f"{field.name} {_shown(messages, field.name, row)}"
        for field in messages.schema
        if not pa.types.is_nested(field.type) and field.name not in order_by and not field.name.startswith("__sq_")
    ]
    return f"a message with {', '.join(others[:_MOST_COLUMNS])}" if others else "a message"


def _shown(messages: pa.Table, column: str, row: int) -> str:
    """A value in one line: text as Python writes it, all other values as Arrow writes them."""
    scalar = messages.column(column)[row]
    kind = scalar.type
    if not scalar.is_valid:
        return "null"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        text = repr(scalar.as_buffer().to_pybytes().decode(errors="backslashreplace"))
    elif pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        text = repr(scalar.as_buffer().to_pybytes())
    else:
        text = str(scalar)
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}…"
