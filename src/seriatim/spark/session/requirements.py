"""The settings that a session needs for a stateful operator in Python, even in a session of the user's."""

from __future__ import annotations

import sys

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from seriatim.errors import EnvironmentProblem
from seriatim.pipeline.text.event_log import LOG
from seriatim.spark.session import versions

_PARTITIONS = "spark.sql.shuffle.partitions"
_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def make_ready(df: DataFrame) -> None:
    """Configure the frame's session: its workers run this Python, and for streams the state store supports Python operators. Raises
    `EnvironmentProblem`: the session doesn't let its state store be chosen.
    """
    use_this_python(df.sparkSession)
    if df.isStreaming:
        versions.keep_batches_apart(df.sparkSession)
    if df.isStreaming and df.sparkSession.conf.get(_PROVIDER) != _ROCKSDB:
        try:
            df.sparkSession.conf.set(_PROVIDER, _ROCKSDB)
        except PySparkException as error:
            raise EnvironmentProblem(
                "the Spark session keeps state where operators in Python can't reach it, and doesn't let that be changed",
                where=_PROVIDER,
                remedy=f"set it to {_ROCKSDB} where Spark is started",
            ) from error


def warn_of_empty_partitions(session: SparkSession, buckets: int) -> None:
    """Warn of partitions beyond the buckets: they stay empty, and each commits a state store with every batch."""
    partitions = int(session.conf.get(_PARTITIONS) or 0)
    if partitions > buckets:
        LOG.warning(
            "empty_partitions",
            partitions=partitions,
            buckets=buckets,
            _empty=partitions - buckets,
            _setting=_PARTITIONS,
        )


def use_this_python(session: SparkSession) -> None:
    """Make a session's workers run this Python; Spark would take the first one in PATH."""
    context = getattr(session, "_sc", None)  # there is none through Connect
    if context is not None and context.pythonExec == "python3" and context.master.startswith("local"):
        context.pythonExec = sys.executable  # Spark was started before we were imported


def arrow_schema(session: SparkSession, schema: T.StructType) -> bytes:
    """The schema that Spark passes to a worker, as an IPC message."""
    zone = session.conf.get("spark.sql.session.timeZone")
    return versions.arrow_schema(schema, str(zone)).serialize().to_pybytes()
