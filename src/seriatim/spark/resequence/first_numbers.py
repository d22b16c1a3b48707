"""First numbers of groups: packets by bucket, and the same in files.

Spark gives a stateful operator an initial state in its first batch only. So the first numbers of a destination that is added to a
checkpoint with batches lie in a folder of the checkpoint, a file for each bucket, and a bucket reads its own in the first call in which it
doesn't know the destination.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from seriatim.errors import ColumnError, UsageError
from seriatim.kernel.groups.policy import Standard
from seriatim.pipeline.declared.queue import Queue
from seriatim.spark.state.buckets import bucket_ids
from seriatim.spark.state.checkpoint_files import sync_folder
from seriatim.spark.state.packets import PACKET_SCHEMA, InArrow, by_bucket, pack_by, read_bucket, write_bucket

START_QUEUE, START_KEY, START_NEXT = "queue", "key", "next"
_BUCKET = "__sq_bucket"
_SCHEMA = pa.schema([(START_QUEUE, pa.string()), (START_KEY, pa.binary()), (START_NEXT, pa.int64())])


def first_numbers(start: DataFrame, queues: Sequence[Queue], buckets: int, *, several: bool, by_key: bool) -> DataFrame:
    """Packets of first numbers, by bucket; `by_key`: see `prepared`."""
    for column in ["group", "next", *(["destination"] if several else [])]:
        if column not in start.columns:
            raise ColumnError("start_from has no such column", where=f"column {column!r}", remedy="group and next")
    name = F.col("destination") if several else F.lit("")
    standard = [queue.name if several else "" for queue in queues if isinstance(queue.policy, Standard)]
    if not standard:
        raise UsageError("start_from requires the policy Standard")
    kind = start.schema["group"].dataType
    key = F.col("group") if isinstance(kind, T.BinaryType) else F.col("group").cast("string").cast("binary")
    rows = start.select(
        name.alias(START_QUEUE), key.alias(START_KEY), F.col("next").cast("long").alias(START_NEXT)
    ).where(F.col(START_QUEUE).isin(standard) & F.col(START_KEY).isNotNull() & F.col(START_NEXT).isNotNull())
    rows = rows.dropDuplicates([START_QUEUE, START_KEY])
    of_queue = F.lit("") if by_key else F.col(START_QUEUE)
    bucket = F.pmod(F.xxhash64(of_queue, START_KEY), F.lit(buckets)).cast("int")
    return rows.withColumn(_BUCKET, bucket).mapInArrow(pack_by(_BUCKET, bucket_ids(buckets)), PACKET_SCHEMA)


def keep_first_numbers(packets: DataFrame, folder: Path) -> None:
    """Write packets of first numbers into a folder that the workers reach; earlier content is replaced."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in folder.iterdir():
        file.unlink()
    packets.repartition("bucket").mapInArrow(_writing(str(folder)), "file string").collect()
    sync_folder(folder)


def _writing(folder: str) -> InArrow:
    """Writes the file of each bucket, whose packets are all in one task."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for bucket, tables in by_bucket(batches).items():
            rows = pa.concat_tables(tables).cast(_SCHEMA).sort_by([(START_KEY, "ascending")])
            write_bucket(Path(folder), bucket, rows.combine_chunks())
            yield pa.RecordBatch.from_arrays([pa.array([str(bucket)])], ["file"])

    return run


def first_numbers_in(folder: Path, bucket: int) -> pa.Table:
    """The first numbers of a bucket's groups in a folder that `keep_first_numbers` has written."""
    return read_bucket(folder, bucket, _SCHEMA, "the first numbers of a destination are gone")
