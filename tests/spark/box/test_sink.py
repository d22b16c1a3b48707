"""Spark writes into the box: each row a message, each micro-batch once."""

from __future__ import annotations

import re

import psycopg
import pyarrow as pa
import pytest
from pyspark.sql import functions as F

import seriatim as sq
from seriatim.box.pipelines.incoming import Incoming
from seriatim.box.pipelines.staging import Staging, last_batch
from seriatim.errors import CheckpointMismatch
from seriatim.spark.deliver.outbox import Outbox
from seriatim.spark.deliver.outgoing import Outgoing
from seriatim.spark.deliver.port import Port
from seriatim.spark.deliver.targets import BoxSink
from tests.regions.test_worker import away

ORDER = sq.MessageType("order", properties={"customer": "string", "version": "long", "amount": "decimal(12,2)"})


@pytest.fixture
def queue(box):
    box.define(
        ORDER,
        sq.Queue("orders", policy=sq.Standard(), group="customer", sequence="version"),
        sq.Queue("large", policy=sq.Fifo(), group="customer"),
        sq.Queue("ordered", policy=sq.Standard(), group="customer", sequence="version"),
        sq.Subscription("all", where="type = 'order'", to="orders"),
        sq.Subscription("large", where="type = 'order' AND amount >= 100", to="large"),
    )
    return box


def rows_of(spark, n=200, groups=10):
    """Orders of several customers, of whom each has the versions 1, 2, 3 …, scrambled."""
    return (
        spark.range(n)
        .repartition(3)
        .select(
            F.format_string("m-%05d", "id").alias("message_id"),
            F.lit("order").alias("type"),
            F.format_string("c%d", F.col("id") % groups).alias("customer"),
            (F.col("id") / groups).cast("long").alias("_at"),
            F.when(F.col("id") < 20, F.lit(150)).otherwise(5).cast("decimal(12,2)").alias("amount"),
            F.col("id").cast("string").alias("body"),
        )
        .withColumn("version", F.col("_at") + 1)
        .drop("_at")
    )


def written(frame, box, **options):
    writer = frame.write.format("seriatim").option("dsn", box.dsn).option("schema", box.schema).mode("append")
    writer.options(**options).save()


def drain(box, name):
    found = {}
    while True:
        with box.session() as tx:
            delivery = tx.receive(name, limit=1000)
            if delivery is None:
                return found
            found.setdefault(delivery.group, []).extend(delivery)


def test_a_frame_is_published(spark, queue):
    written(rows_of(spark), queue)
    orders = drain(queue, "orders")
    assert sorted(orders) == [f"c{one}" for one in range(10)]
    assert all([message.sequence for message in each] == list(range(1, 21)) for each in orders.values())
    assert sum(map(len, drain(queue, "large").values())) == 20
    tickets = sorted(message.ticket.number for each in orders.values() for message in each)
    assert tickets == list(range(1, 201))
    first = orders["c3"][0]
    assert (first.body, first.context["amount"]) == (b"3", 150)


@pytest.mark.parametrize("tasks", [1, 2])
def test_rows_of_two_locations_leave_in_the_order_of_the_frame(spark, queue, tasks):
    rows = [("order", "c", 1, 100, ("web", "box")[nth % 2], str(nth)) for nth in range(6)]
    columns = "type string, customer string, version long, amount long, location string, body string"
    written(spark.createDataFrame(rows, columns).coalesce(tasks), queue)
    assert [one.body for one in drain(queue, "large")["c"]] == [b"%d" % nth for nth in range(6)]


def test_published_again_it_changes_nothing(spark, queue):
    written(rows_of(spark, 20), queue)
    written(rows_of(spark, 20), queue)
    assert sum(map(len, drain(queue, "orders").values())) == 20


def test_straight_into_a_queue_with_groups_and_numbers_as_they_are(spark, queue):
    frame = rows_of(spark, 50, 5).withColumns({"group": F.upper("customer"), "ordinal": F.col("version")})
    written(frame.drop("version"), queue, queue="ordered", group="group", sequence="ordinal")
    found = drain(queue, "ordered")
    assert {group: [one.ordinal for one in each] for group, each in found.items()} == {
        f"C{one}": list(range(1, 11)) for one in range(5)
    }
    assert drain(queue, "orders") == {}


def streamed(spark, source, box, folder, **options):
    """Writes what a folder of JSON has, until there is nothing more."""
    schema = "message_id string, type string, customer string, version long, amount decimal(12,2), body string"
    frame = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).json(str(source))
    writer = frame.writeStream.format("seriatim").option("dsn", box.dsn).option("schema", box.schema)
    writer = writer.options(**options).option("checkpointLocation", str(folder)).trigger(availableNow=True)
    writer.start().awaitTermination(120)


def count(box, table):
    with box.session() as tx:
        return tx.connection.execute(f"SELECT count(*) FROM {box.schema}.{table}").fetchone()[0]


@pytest.mark.telling
@pytest.mark.parametrize("named", [True, False])
def test_a_batch_that_comes_again_is_nothing(spark, queue, tmp_path, named):
    source, folder = tmp_path / "in", tmp_path / "checkpoint"
    frame = rows_of(spark, 100) if named else rows_of(spark, 100).drop("message_id")
    frame.repartition(3).write.json(str(source))
    streamed(spark, source, queue, folder)
    assert count(queue, "spool") == 100
    for kept in sorted((folder / "commits").glob("[0-9]*"))[-1:]:
        kept.unlink()
        (folder / "commits" / f".{kept.name}.crc").unlink(missing_ok=True)
    streamed(spark, source, queue, folder)
    assert count(queue, "spool") == 100
    assert [count(queue, table) for table in ("parts", "staged_arrivals", "staged_messages", "staged_entries")] == [
        0
    ] * 4
    orders = drain(queue, "orders")
    assert all([message.sequence for message in each] == list(range(1, 11)) for each in orders.values())
    with queue.session() as tx:
        batch, version, messages = tx.connection.execute(
            f"SELECT batch, version, messages FROM {queue.schema}.writers"
        ).fetchone()
        assert (batch, messages) == (2, 100)
        assert version == tx.connection.execute(f"SELECT max(version) FROM {queue.schema}.changes").fetchone()[0]


def parts_of(*messages):
    columns = [pa.array([message[n] for message in messages]) for n in range(3)]
    return [pa.RecordBatch.from_arrays(columns, names=["message_id", "customer", "version"])]


def test_a_part_is_routed_again_where_the_definitions_have_changed(queue):
    incoming = Incoming(type="order")
    with Staging(queue.dsn, queue.schema, incoming=incoming) as staging:
        staged = staging.stage("w", 0, parts_of(("m1", "a", 1), ("m2", "b", 1)))
        queue.define(sq.Queue("new", policy=sq.Fifo(), group="customer"))
        queue.define(sq.Subscription("new", where="customer = 'b'", to="new"))
        assert staging.merge("w", 0, [staged]) == 2
        assert staging.merge("w", 0, [staged]) == 0
    assert [message.message_id for message in drain(queue, "new")["b"]] == ["m2"]
    assert sorted(drain(queue, "orders")) == ["a", "b"]


def test_what_a_failed_task_staged_is_never_there(queue):
    with Staging(queue.dsn, queue.schema, incoming=Incoming(type="order")) as staging:
        stray = staging.stage("w", 0, parts_of(("m1", "a", 1)))
        again = staging.stage("w", 0, parts_of(("m1", "a", 1)))
        assert staging.merge("w", 0, [again]) == 1
        staging.discard([stray, again])
    assert count(queue, "spool") == 1
    assert count(queue, "staged_entries") == 0


def test_a_first_batch_is_not_compared_with_itself(queue):
    """Of a box that is new PostgreSQL doesn't know how many rows a part has."""
    with Staging(queue.dsn, queue.schema, incoming=Incoming(type="order")) as staging:
        part, _ = staging.stage("w", 0, parts_of(*((f"m{n}", "a", n) for n in range(1, 501))))
    with psycopg.connect(queue.dsn) as connection:
        # As where a message was published before.
        connection.execute(f"SELECT {queue.schema}.unstore_parts(ARRAY[{part}])")
        merge = "SELECT prosrc, proconfig FROM pg_proc WHERE oid = %s::regproc"
        source, settings = connection.execute(merge, [f"{queue.schema}.merge_parts"]).fetchone()
        for setting in settings or ():
            connection.execute("SELECT set_config(%s, %s, TRUE)", setting.split("=", 1))
        body = source[source.index("WITH ") : source.index("SELECT count(*) INTO")] + "SELECT count(*) FROM numbered"
        for name, value in {
            "of_parts": f"ARRAY[{part}]::bigint[]",
            "repeat": "FALSE",
            "moment_us": "0",
            "has_gates": "FALSE",
            "serials": "(SELECT array_agg(n) FROM generate_series(1, 500) AS n)",
        }.items():
            body = re.sub(rf"\b{name}\b", value, body)
        (((plan,),),) = connection.execute(f"EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) {body}").fetchall()
        connection.rollback()
    assert compared(plan["Plan"]) <= 500


def compared(plan):
    """How many pairs of rows a plan looks at in vain."""
    here = plan.get("Rows Removed by Join Filter", 0) * plan["Actual Loops"]
    return here + sum(map(compared, plan.get("Plans", ())))


def test_parts_that_are_gone_are_missed(queue):
    with Staging(queue.dsn, queue.schema, incoming=Incoming(type="order")) as staging:
        staged = staging.stage("w", 0, parts_of(("m1", "a", 1)))
        with queue.session() as tx:  # as a crash of the server empties it
            tx.connection.execute(f"TRUNCATE {queue.schema}.staged_entries")
        with pytest.raises(sq.Unavailable, match="a staged part of the batch is gone"):
            staging.merge("w", 0, [staged])
        assert count(queue, "messages") == 0
        staging.discard([staged])
    assert count(queue, "spool") == 0


def test_messages_at_which_something_is_wrong_stop_nothing(queue):
    rows = [
        pa.RecordBatch.from_pydict(
            {
                "type": ["order", "order", "order", "nobody's"],
                "context": [
                    '{"customer": "a", "version": 1}',
                    '{"customer": "a", "nope": {"x": 1}}',
                    '{"ticket": 5}',
                    "{}",
                ],
                "customer": [None, "a\0", None, None],
            }
        )
    ]
    with Staging(queue.dsn, queue.schema) as staging:
        assert staging.merge("w", 0, [staging.stage("w", 0, rows)]) == 4
    assert sorted(drain(queue, "orders")) == ["a"]
    with queue.session() as tx:
        problems = tx.connection.execute(f"SELECT problem FROM {queue.schema}.unrouted ORDER BY position").fetchall()
    assert [bool(problem) for (problem,) in problems] == [True, True, False]


@pytest.mark.parametrize(
    ("columns", "options", "said"),
    [
        ({"ticket": "1"}, {}, "column 'ticket': the box sets this property itself"),
        ({"tags": "array(1)"}, {}, "column 'tags': it can't be array<int>"),
        ({"parts": "array(1)"}, {}, "column 'parts': it can't be array<int>"),
        ({"parts": "array(named_struct('name', 'a', 'body', 1))"}, {}, "make it array<struct<name string"),
        ({"parts": "array(named_struct('name', 'a', 'body', '', 'size', 1))"}, {}, "make it array<struct<name string"),
        ({}, {"queue": "nowhere"}, "there is no queue 'nowhere'"),
        ({}, {"takeOver": "true"}, "the option 'takeOver' of the format seriatim is for reading"),
        ({}, {"writer": "me"}, "there is no batch"),
        ({}, {"schema": "mistyped"}, "seriatim box migrate"),
        ({}, {"queue": "orders", "group": "g", "sequence": "version"}, "there is no such column for the group"),
        ({}, {"group": "customer"}, "group, sequence and queue must be given together"),
    ],
)
def test_frames_that_cannot_be_written(spark, queue, columns, options, said):
    made = {name: F.expr(text) for name, text in columns.items()}
    frame = rows_of(spark, 5).withColumns(made) if made else rows_of(spark, 5)
    with pytest.raises(Exception) as caught:
        written(frame.limit(0), queue, **options)  # before a task sees a row
    assert said in str(caught.value)
    assert count(queue, "spool") == 0


def test_a_frame_without_types_can_not_be_written(spark, queue):
    with pytest.raises(Exception, match="the messages have no type"):
        written(rows_of(spark, 5).drop("type"), queue)
    written(rows_of(spark, 5).drop("type"), queue, type="order")
    assert count(queue, "spool") == 5


def test_a_stream_has_batches_of_its_own(spark, queue, tmp_path):
    rows_of(spark, 1).write.json(str(tmp_path / "in"))
    with pytest.raises(Exception, match="'writer' of the format seriatim is for frames: a stream has its own"):
        streamed(spark, tmp_path / "in", queue, tmp_path / "checkpoint", writer="me", batch="1")
    assert count(queue, "spool") == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"writer": "me"}, "the option 'writer' of the format seriatim is for writing"),
        ({"dialogBy": "customer"}, "the option 'dialogBy' of the format seriatim is for writing"),
        ({"schema": "mistyped"}, "there is no message box in the schema mistyped (seriatim box migrate)"),
    ],
)
def test_frames_that_cannot_be_read(spark, queue, options, said):
    reader = spark.read.format("seriatim").option("dsn", queue.dsn).option("schema", queue.schema)
    with pytest.raises(Exception) as caught:
        reader.options(**options).load()
    assert said in str(caught.value)
    with psycopg.connect(queue.dsn) as connection:
        assert connection.execute("SELECT to_regnamespace('mistyped') IS NULL").fetchone() == (True,)


def test_rows_that_are_no_messages_are_kept_beside_the_others(spark, queue):
    context = "CASE id WHEN 0 THEN '{nope' WHEN 1 THEN '{\"to\": \"nowhere\"}' END"
    frame = rows_of(spark, 10).withColumn("id", F.expr("CAST(substr(message_id, 3) AS INT)"))
    frame = frame.withColumns({"context": F.expr(context), "type": F.expr("CASE id WHEN 2 THEN NULL ELSE type END")})
    made = {
        "body": F.expr("CASE id WHEN 3 THEN NULL ELSE body END"),
        "message_id": F.expr("concat(message_id, IF(id = 4, '\\0', ''))"),
    }
    for _ in range(2):
        written(frame.withColumns(made).drop("id"), queue, writer="w", batch="0")
    with queue.session() as tx:
        found = tx.connection.execute(
            f"SELECT stored.body, problem FROM {queue.schema}.unrouted JOIN {queue.schema}.spool AS stored "
            "USING (arrival_id, position) ORDER BY body"
        ).fetchall()
    assert [(body, problem.split(":")[0]) for body, problem in found] == [
        (b"0", "column 'context'"), (b"1", "message m-00001 is addressed to 'nowhere', which is no queue"),
        (b"2", "column 'type'"), (b"4", "column 'message_id'"),
    ]  # fmt: skip
    assert sum(map(len, drain(queue, "orders").values())) == 6


def test_parts_go_both_ways(spark, queue):
    one = F.array(
        F.struct(
            F.lit("scan").alias("name"), F.lit("image/tiff").alias("content_type"), F.lit(b"\0\xff").alias("body")
        ),
        F.struct(
            F.lit("note").alias("name"), F.lit(None).cast("string").alias("content_type"), F.lit(b"").alias("body")
        ),
    )
    rows = rows_of(spark, 2, groups=2)
    written(rows.withColumn("parts", F.when(F.col("customer") == "c0", one)), queue)
    reader = spark.read.format("seriatim").option("dsn", queue.dsn).option("schema", queue.schema)
    read = reader.option("queue", "orders").load()
    assert {row.customer: row.parts for row in read.collect()} == {
        "c0": [("scan", "image/tiff", b"\0\xff"), ("note", None, b"")],
        "c1": None,
    }
    again = read.select("type", "customer", "version", "amount", "body", "parts")  # other ids: new messages
    written(again, queue)
    found = drain(queue, "orders")["c0"]
    assert found[0].parts == (sq.Part("scan", "image/tiff", b"\0\xff"), sq.Part("note", None, b""))


def test_a_number_called_parts_is_a_property(spark, queue):
    written(rows_of(spark, 1).withColumn("parts", F.lit(7)), queue)
    (message,) = drain(queue, "orders")["c0"]
    assert (message.context["parts"], message.parts) == (7, ())


def test_a_box_that_is_away_at_the_start_is_asked_for_its_batches_before_it_gets_any(spark, queue, tmp_path):
    row = pa.RecordBatch.from_pydict({"message_id": ["m"], "type": ["order"]})
    with Staging(queue.dsn, queue.schema, incoming=Incoming()) as staging:
        assert staging.merge("w", 5, [staging.stage("w", 5, [row])]) == 1
    sink = BoxSink(spark, "w", {"queue": "orders"}, 0, lambda writer: queue.access.within(last_batch, writer))
    for latest in (5, 4):
        way = Outgoing("orders", sink, Outbox(Port("orders", tmp_path / "waiting", "parquet"), "p", "id"), lambda: 0.0)
        with away(queue.dsn):
            way.check_age(latest)
        assert "it is older" not in way.waiting().reason
        way.carry()
        if latest == 5:
            assert way.waiting() is None
    assert "the port has batch 5, and the checkpoint would go on with batch 4: it is older" in way.waiting().reason
    with pytest.raises(CheckpointMismatch, match="the port has batch 5"):
        way.check_age(4)
