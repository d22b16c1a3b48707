"""Kafka as source and sink, as far as no broker is needed.

Rows of a topic lie in ORC files, in the schema of Spark's source `kafka`. Spark's sink `kafka` isn't on the class path, so
its destination waits, and what waits is compared with what that sink takes. Beside them a JDBC sink, with Spark's own Derby.
"""

from __future__ import annotations

import datetime as dt
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc
from pyspark.sql import functions as F

from seriatim import Standard
from seriatim.pipeline.files.pipeline_file import load
from seriatim.runtime.pipelines.run import run
from seriatim.runtime.pipelines.set_aside import read_set_aside
from seriatim.spark import resequence, stamp
from seriatim.spark.deliver.targets import SparkSink

pytestmark = pytest.mark.usefixtures("spark")

FILE = """
name: orders
checkpoint: {folder}/checkpoint
buckets: 2
trigger: 0s
receive:
  - location: shop
    source: {{format: orc, path: {folder}/topic, id: [topic, partition, offset], body: value}}
    promote:
      customer: key
      version: {{path: $.version, type: long}}
      partition: {{path: partition, type: long}}
      sent_at: {{path: timestamp, type: timestamp}}
route:
  - to: back
    resequence: {{policy: standard, group: customer, sequence: version, start: first}}
    deliver: {{format: kafka, options: {{kafka.bootstrap.servers: "127.0.0.1:9", topic: ordered}}}}
  - to: lake
    resequence: {{policy: fifo, group: customer}}
    deliver: {{format: parquet, path: {folder}/out}}
  - to: table
    resequence: {{policy: fifo, group: customer}}
    deliver: {{format: jdbc, options: {{url: "{url}", dbtable: orders, driver: org.apache.derby.iapi.jdbc.AutoloadedDriver}}}}
"""

# The schema of Spark's source.
SOURCE = pa.schema(
    {
        "key": pa.binary(),
        "value": pa.binary(),
        "topic": pa.string(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "timestamp": pa.timestamp("us", "UTC"),
        "timestampType": pa.int32(),
    }
)
SOURCE_ON_SPARK = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
)


def record(partition, offset, key, version):
    body = None if version is None else json.dumps({"version": version}).encode()
    return (key, body, "orders", partition, offset, dt.datetime(2026, 1, 1, tzinfo=dt.UTC), 0)


def test_a_topic_in_order_and_back_into_a_topic(spark, tmp_path):
    (tmp_path / "topic").mkdir()
    records = [
        record(0, 9, b"c1", 2),  # the first one of c1: partition 0, its lowest offset
        record(0, 11, b"c1", 4),
        record(0, 10, b"c1", 3),
        record(1, 10, b"c2", 7),
        record(0, 12, b"c1", 3),  # the producer sent it again
        record(1, 12, b"c2", 9),  # 8 is missing
        record(1, 11, None, 1),  # without a key
        record(0, 13, b"c1", None),  # a tombstone
    ]
    table = pa.table([list(column) for column in zip(*records, strict=True)], schema=SOURCE)
    orc.write_table(table, tmp_path / "topic" / "0.orc")
    spark._jvm.java.lang.System.setProperty("derby.stream.error.file", str(tmp_path / "derby.log"))
    url = f"jdbc:derby:{tmp_path}/db;create=true"
    (tmp_path / "pipeline.yaml").write_text(FILE.format(folder=tmp_path, url=url))
    summary = run(load(tmp_path / "pipeline.yaml"), once=True)

    # From Kafka: partition and offset are the order of arrival and the id, and the key is a property.
    lake = sorted((tmp_path / "out").glob("batch=*/part-*"))  # a group is in one of them
    rows = [row for part in lake for row in pq.read_table(part).to_pylist()]
    assert [row["message_id"] for row in rows if row["group"] == "c1"] == [f"shop/orders:0:{n}" for n in range(9, 14)]
    assert [row["ticket"]["number"] for row in rows if row["group"] == "c1"] == [1, 2, 3, 4, 5]
    assert {(row["partition"], row["sent_at"].year) for row in rows} == {(0, 2026), (1, 2026)}
    aside = read_set_aside(tmp_path / "checkpoint" / "set-aside")
    told = sorted((one.destination, one.message_id, one.disposition) for one in aside)
    assert told == [
        ("back", "shop/orders:0:12", "duplicate"),
        ("back", "shop/orders:0:13", "invalid"),
        ("back", "shop/orders:1:11", "invalid"),
        ("lake", "shop/orders:1:11", "invalid"),
        ("table", "shop/orders:1:11", "invalid"),
    ]

    # To Kafka: the port fails for want of the connector, and says so; what waits for it is what the sink takes.
    (waiting,) = summary.waiting
    assert (waiting.destination, waiting.rows) == ("back", 4)
    assert "Kafka Integration Guide" in waiting.reason
    sink = SparkSink(spark, "kafka", None, {})
    (batch,) = (tmp_path / "checkpoint" / "waiting" / "back").glob("batch=*")
    frame = sink.rows(batch)
    assert [(one.name, one.dataType.simpleString()) for one in frame.schema] == [
        ("key", "string"),
        ("value", "binary"),
        ("headers", "array<struct<key:string,value:binary>>"),
    ]
    sent = [
        (row.key, json.loads(row.value), {one.key: bytes(one.value) for one in row.headers}) for row in frame.collect()
    ]
    assert [one for one in sent if one[0] == "c1"] == [
        ("c1", {"version": n + 1}, {"message_id": f"shop/orders:0:{n + 8}".encode(), "ordinal": str(n).encode()})
        for n in (1, 2, 3)
    ]
    assert [one[1]["version"] for one in sent if one[0] == "c2"] == [7]

    # To a table by JDBC: no structs there, and the ordinals tell the order.
    table = spark.read.format("jdbc").options(
        url=url, dbtable="orders", driver="org.apache.derby.iapi.jdbc.AutoloadedDriver"
    )
    stored = [row for row in table.load().orderBy("ordinal").collect() if row.group == "c1"]  # Derby compares no CLOBs
    assert [(row.ordinal, row.ticket, row.version) for row in stored] == [
        (n, f"shop/0/{n}", version) for n, version in enumerate([2, 3, 4, 3, None], 1)
    ]

    # In a frame of one's own: each partition is a location, and its offsets become tickets without gaps.
    topic = spark.read.schema(SOURCE_ON_SPARK).orc(str(tmp_path / "topic"))
    stamped = stamp(topic, F.concat_ws("/", "topic", "partition"), order_by=["offset"])
    tickets = {(row.partition, row.offset): tuple(row.ticket) for row in stamped.collect()}
    assert tickets[0, 9] == ("orders/0", 0, 1)
    assert tickets[1, 12] == ("orders/1", 0, 3)
    version = F.get_json_object(F.col("value").cast("string"), "$.version").cast("long")
    orders = stamped.withColumns({"customer": F.col("key").cast("string"), "version": version})
    ordered = resequence(orders, group="customer", sequence="version", policy=Standard(start="first"))
    assert [row.version for row in ordered.where("customer = 'c1'").orderBy("ordinal").collect()] == [2, 3, 4]
