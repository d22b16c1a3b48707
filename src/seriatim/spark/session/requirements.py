"""The settings that a session needs for a stateful operator in Python, even in a session that we didn't open."""

from __future__ import annotations

import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema

__all__ = ["arrow_schema", "make_ready"]

_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def make_ready(df: DataFrame) -> None:
    """Configure the frame's session: its workers run this Python, and for streams the state store supports Python operators."""
    context = getattr(df.sparkSession, "_sc", None)  # there is none through Connect
    if context is not None and context.pythonExec == "python3" and context.master.startswith("local"):
        context.pythonExec = sys.executable  # Spark was started before we were imported
    if df.isStreaming and df.sparkSession.conf.get(_PROVIDER) != _ROCKSDB:
        df.sparkSession.conf.set(_PROVIDER, _ROCKSDB)


def arrow_schema(session: SparkSession, schema: T.StructType) -> bytes:
    """The schema that Spark passes to a worker, as an IPC message."""
    zone = session.conf.get("spark.sql.session.timeZone")
    return to_arrow_schema(schema, timezone=zone).serialize().to_pybytes()
