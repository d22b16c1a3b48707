"""Types of properties in Spark and Arrow. For the conversion of values see `seriatim.pipeline.bodies.property_values`."""

from __future__ import annotations

import re

import pyarrow as pa

from seriatim.errors import UsageError

_DECIMAL = re.compile(r"decimal(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?")
# Spark's type, and Arrow's.
_PLAIN_TYPES = {
    "string": ("string", pa.string()),
    "long": ("bigint", pa.int64()),
    "double": ("double", pa.float64()),
    "boolean": ("boolean", pa.bool_()),
    "timestamp": ("timestamp", pa.timestamp("us", "UTC")),
}


def ddl_of(kind: str) -> str:
    decimal = _DECIMAL.fullmatch(kind)
    if decimal is not None:
        precision, scale = int(decimal[1] or 10), int(decimal[2] or 0)
        if 1 <= precision <= 38 and scale <= precision:
            return f"decimal({precision},{scale})"
    elif kind in _PLAIN_TYPES:
        return _PLAIN_TYPES[kind][0]
    raise UsageError(f"{kind!r} is not a type of properties", remedy=f"one of {', '.join(_PLAIN_TYPES)}, decimal(p,s)")


def arrow_type(kind: str) -> pa.DataType:
    ddl = ddl_of(kind)
    if ddl.startswith("decimal"):
        return pa.decimal128(*map(int, ddl[len("decimal(") : -1].split(",")))
    return _PLAIN_TYPES[kind][1]


def declared_type(kind: pa.DataType) -> str:
    """A type in the words of a declaration, in whichever zone a timestamp is; of another type Arrow's words."""
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_timestamp(kind):
        return "timestamp"
    return next((word for word, (_, own) in _PLAIN_TYPES.items() if own == kind), str(kind))
