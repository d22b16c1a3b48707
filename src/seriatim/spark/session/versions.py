"""The differences between the versions of Spark: no other module asks for the version."""

from __future__ import annotations

import ast
import json
import re
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyspark
from pyspark.sql import SparkSession
from pyspark.sql import types as T
from pyspark.sql.pandas import types as arrow

from seriatim.errors import EnvironmentProblem

#: Spark's, where it has them.
__all__ = ["ReadAllAvailable", "ReadLimit", "ReadMaxRows", "SupportsTriggerAvailableNow"]

#: The first version that works, and the first that wasn't tried.
LEAST, BELOW = (4, 1), (4, 4)
_FOUND = tuple(map(int, re.findall(r"\d+", pyspark.__version__)[:2]))
_INSTALL = f'pip install "pyspark>={LEAST[0]}.{LEAST[1]},<{BELOW[0]}.{BELOW[1]}"'

#: Whether Spark gives a source in Python its starts, and the trigger `availableNow` (4.2).
STARTS_ARE_TOLD = _FOUND >= (4, 2)

if TYPE_CHECKING or STARTS_ARE_TOLD:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
else:
    # Only so that the classes of our sources can be defined: this Spark doesn't use them.
    ReadAllAvailable = ReadLimit = ReadMaxRows = SupportsTriggerAvailableNow = type("_NotThere", (), {})


def check_version() -> None:
    """Check that it is a Spark with which we work. Raises `EnvironmentProblem`: it is too old or too new."""
    if not LEAST <= _FOUND < BELOW:
        which = f"{LEAST[0]}.{LEAST[1]} to {BELOW[0]}.{BELOW[1] - 1}"
        raise EnvironmentProblem(
            f"seriatim works with Spark {which}, and this is Spark {pyspark.__version__}", remedy=_INSTALL
        )


def refused() -> EnvironmentProblem:
    """The error for a stream from a message box on a Spark that doesn't give a source its starts."""
    return EnvironmentProblem(
        f"a stream from a message box needs Spark 4.2 or newer, and this is Spark {pyspark.__version__}",
        remedy='pip install "pyspark>=4.2", or let workers receive from the queue',
    )


def arrow_schema(schema: T.StructType, zone: str) -> pa.Schema:
    """Return the schema of rows as Spark passes them to a worker; `zone`: the time zone of the frame's session."""
    if STARTS_ARE_TOLD:
        return arrow.to_arrow_schema(schema, timezone=zone)
    # Before 4.2 it always names UTC, but Spark passes the session's time zone.
    return pa.schema([in_zone(field, zone) for field in arrow.to_arrow_schema(schema)])


def spark_schema(schema: pa.Schema) -> T.StructType:
    """The schema of a frame with these rows; a timestamp without a time zone stays one, which is the default since 4.2."""
    return arrow.from_arrow_schema(schema, prefer_timestamp_ntz=True)


def keep_batches_apart(session: SparkSession) -> None:
    """Give a query with the trigger `availableNow` as many batches as its other sources want, though ours doesn't know that trigger."""
    if not STARTS_ARE_TOLD:
        session.conf.set("spark.sql.streaming.triggerAvailableNowWrapper.enabled", "true")


def offset(version: Any) -> Any:
    """An offset in the progress of a query: as JSON, and before 4.2 in Python's notation."""
    if not isinstance(version, str) or not version.startswith("{"):
        return version
    return json.loads(version) if STARTS_ARE_TOLD else ast.literal_eval(version)


def in_zone(field: pa.Field, zone: str) -> pa.Field:
    """A field whose timestamps, at any depth, have another time zone."""
    kind = field.type
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return field.with_type(pa.timestamp(kind.unit, zone))
    if pa.types.is_struct(kind):
        return field.with_type(pa.struct([in_zone(field, zone) for field in kind]))
    if pa.types.is_list(kind):
        return field.with_type(pa.list_(in_zone(kind.value_field, zone)))
    if pa.types.is_map(kind):
        return field.with_type(pa.map_(in_zone(kind.key_field, zone), in_zone(kind.item_field, zone)))
    return field
