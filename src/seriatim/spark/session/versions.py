"""What differs between the versions of Spark: no other module asks for the version."""

from __future__ import annotations

import ast
import json
import re
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyspark
from pyspark.sql import types as T
from pyspark.sql.pandas import types as arrow

from seriatim.errors import EnvironmentProblem

__all__ = [
    "STARTS_ARE_TOLD",
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxRows",
    "SupportsTriggerAvailableNow",
    "arrow_schema",
    "check_version",
    "need_told_starts",
    "offset",
    "spark_schema",
]

#: The first version that works, and the first that wasn't tried.
_LEAST, _BELOW = (4, 1), (4, 4)
_FOUND = tuple(map(int, re.findall(r"\d+", pyspark.__version__)[:2]))
_INSTALL = f'pip install "pyspark>={_LEAST[0]}.{_LEAST[1]},<{_BELOW[0]}.{_BELOW[1]}"'

#: Whether Spark tells a source in Python where the last batch ended, and when a query takes only what is there now (4.2).
STARTS_ARE_TOLD = _FOUND >= (4, 2)

if TYPE_CHECKING or STARTS_ARE_TOLD:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
else:
    # Only so that the classes of our sources can be made: this Spark doesn't ask for them.
    ReadAllAvailable = ReadLimit = ReadMaxRows = SupportsTriggerAvailableNow = type("_NotThere", (), {})


def check_version() -> None:
    """Check that it is a Spark with which we work.

    Raises:
        EnvironmentProblem: it is too old or too new.
    """
    if not _LEAST <= _FOUND < _BELOW:
        which = f"{_LEAST[0]}.{_LEAST[1]} to {_BELOW[0]}.{_BELOW[1] - 1}"
        raise EnvironmentProblem(
            f"seriatim works with Spark {which}, and this is Spark {pyspark.__version__}", remedy=_INSTALL
        )


def need_told_starts(what: str) -> None:
    """Check that this Spark can do what only 4.2 can.

    Args:
        what: the subject of the error's sentence.

    Raises:
        EnvironmentProblem: it can't.
    """
    if not STARTS_ARE_TOLD:
        raise EnvironmentProblem(f"{what} needs Spark 4.2 or newer, and this is Spark {pyspark.__version__}")


def arrow_schema(schema: T.StructType, zone: str) -> pa.Schema:
    """The schema of rows as Spark passes them to a worker.

    Args:
        schema: the schema of the frame.
        zone: the time zone of its session.
    """
    if STARTS_ARE_TOLD:
        return arrow.to_arrow_schema(schema, timezone=zone)
    # Before 4.2 it always names UTC, but Spark passes the session's time zone.
    return pa.schema([_in_zone(field, zone) for field in arrow.to_arrow_schema(schema)])


def spark_schema(schema: pa.Schema) -> T.StructType:
    """The schema of a frame with these rows; a timestamp without a time zone stays one, which is the default since 4.2."""
    return arrow.from_arrow_schema(schema, prefer_timestamp_ntz=True)


def offset(told: Any) -> Any:
    """An offset in the progress of a query: as JSON, and before 4.2 as Python writes it."""
    if not isinstance(told, str) or not told.startswith("{"):
        return told
    return json.loads(told) if STARTS_ARE_TOLD else ast.literal_eval(told)


def _in_zone(field: pa.Field, zone: str) -> pa.Field:
    kind = field.type
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return field.with_type(pa.timestamp(kind.unit, zone))
    if pa.types.is_struct(kind):
        return field.with_type(pa.struct([_in_zone(one, zone) for one in kind]))
    if pa.types.is_list(kind):
        return field.with_type(pa.list_(_in_zone(kind.value_field, zone)))
    if pa.types.is_map(kind):
        return field.with_type(pa.map_(_in_zone(kind.key_field, zone), _in_zone(kind.item_field, zone)))
    return field
