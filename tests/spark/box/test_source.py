"""Spark reads a queue of the box: in order, each message once, whatever happens in between."""

from __future__ import annotations

import pytest

import seriatim as sq
from seriatim.box.pipelines.feed import PipelineFeed

ORDER = sq.MessageType("order", properties={"customer": "string", "version": "long", "amount": "decimal(12,2)"})


def order(customer, version, amount="1.50"):
    context = {"customer": customer, "version": version, "amount": amount}
    return sq.Message(type="order", body=f"{customer}-{version}".encode(), context=context)


def define(box, policy=None, **more):
    box.define(
        ORDER,
        sq.Queue("orders", policy=policy or sq.Standard(), group="customer", sequence="version", **more),
        sq.Queue("loose", policy=sq.Unordered()),
        sq.Subscription("all", where="type = 'order'", to="orders"),
        sq.Subscription("also", where="type = 'order'", to="loose"),
    )


def publish(box, *messages):
    with box.session() as tx:
        return tx.publish(messages)


@pytest.fixture
def queue(box):
    define(box)
    return box


def stream(spark, box, queue="orders", **options):
    reader = spark.readStream.format("seriatim").option("dsn", box.dsn).option("schema", box.schema)
    return reader.option("queue", queue).options(**options).load()


def drained(frame, folder, trigger=None):
    """What a run gives that ends with what is there now: the rows of each batch."""
    found = {}

    def keep(rows, batch):
        found[batch] = rows.collect()

    query = frame.writeStream.foreachBatch(keep).option("checkpointLocation", str(folder))
    query.trigger(**(trigger or {"availableNow": True})).start().awaitTermination(120)
    return found


def of(batches):
    """The bodies by group, in the order in which they came."""
    found = {}
    for _, rows in sorted(batches.items()):
        for row in rows:
            found.setdefault(row.group, []).append((row.sequence, row.ordinal))
    return found


@pytest.mark.telling
def test_a_queue_is_read_in_order_and_once(spark, queue, tmp_path):
    publish(queue, order("a", 2), order("b", 1), order("a", 1), order("a", 4), order("c", 2))
    frame = stream(spark, queue)
    assert frame.columns == [
        "message_id", "type", "location", "ticket", "content_type", "received_at", "group", "sequence", "ordinal",
        "late", "amount", "customer", "version", "context", "body", "parts",
    ]  # fmt: skip
    first = drained(frame, tmp_path / "checkpoint")
    assert of(first) == {"a": [(1, 1), (2, 2)], "b": [(1, 1)]}
    row = first[0][0]
    assert (row.type, bytes(row.body), str(row.amount), row.ticket.location) == ("order", b"a-1", "1.50", "box")
    publish(queue, order("a", 3), order("c", 1))
    assert of(drained(frame, tmp_path / "checkpoint")) == {"a": [(3, 3), (4, 4)], "c": [(1, 1), (2, 2)]}
    assert drained(frame, tmp_path / "checkpoint") == {}


def uncommitted(folder):
    """As a kill leaves it behind the sink's commit and before the checkpoint's: the last batch is done again."""
    commits = folder / "commits"
    last = max((file for file in commits.iterdir() if file.name.isdecimal()), key=lambda file: int(file.name))
    last.unlink()
    (commits / f".{last.name}.crc").unlink(missing_ok=True)
    return int(last.name)


def test_batches_are_bounded_and_the_same_again(spark, queue, tmp_path):
    folder = tmp_path / "checkpoint"
    publish(queue, *(order(f"c{one % 7}", one // 7 + 1) for one in range(70)))
    frame = stream(spark, queue, maxMessagesPerTrigger=20)
    first = drained(frame, folder)
    assert [len(rows) for _, rows in sorted(first.items())] == [20, 20, 20, 10]
    assert of(first) == {f"c{one}": [(n, n) for n in range(1, 11)] for one in range(7)}
    # What came meanwhile has no part in the batch that runs again.
    publish(queue, *(order(f"c{one}", 11) for one in range(7)))
    last = uncommitted(folder)
    again = drained(frame, folder)
    assert sorted(map(str, again.pop(last))) == sorted(map(str, first[last]))
    assert of(again) == {f"c{one}": [(11, 11)] for one in range(7)}


def test_rows_stay_until_the_batch_after_is_worked_on(spark, queue, tmp_path):
    left = []
    for version in (1, 2, 3):
        publish(queue, order("a", version))
        drained(stream(spark, queue), tmp_path / "checkpoint")
        with queue.session() as tx:
            query = f"SELECT sequence FROM {queue.schema}.entries WHERE batch IS NOT NULL ORDER BY 1"
            left.append([number for (number,) in tx.connection.execute(query).fetchall()])
    assert left == [[1], [2], [3]]
    with queue.session() as tx:
        bodies = tx.connection.execute(f"SELECT count(*) FROM {queue.schema}.spool").fetchone()[0]
    assert bodies == 3  # the other queue has them, too


def test_what_a_query_had_in_hand_that_died_in_its_first_batch_is_the_next_ones(spark, queue, tmp_path):
    publish(queue, order("a", 1), order("a", 2))

    def die(rows, batch):
        raise RuntimeError("died")

    query = stream(spark, queue).writeStream.foreachBatch(die).option("checkpointLocation", str(tmp_path / "first"))
    with pytest.raises(Exception, match="died"):
        query.trigger(availableNow=True).start().awaitTermination(120)
    assert of(drained(stream(spark, queue), tmp_path / "second")) == {"a": [(1, 1), (2, 2)]}
    with pytest.raises(Exception, match="the queue belongs to the pipeline 'spark'"):
        drained(stream(spark, queue), tmp_path / "third")


def test_a_queue_that_a_pipeline_reads_is_its_own(spark, queue, tmp_path):
    publish(queue, order("a", 1))
    drained(stream(spark, queue, pipeline="capture"), tmp_path / "first")
    publish(queue, order("a", 2))
    drained(stream(spark, queue, pipeline="capture"), tmp_path / "first")
    with pytest.raises(sq.ActionRefused, match="belongs to the pipeline 'capture'"), queue.session() as tx:
        tx.receive("orders")
    with pytest.raises(Exception, match="the queue belongs to the pipeline 'capture'"):
        drained(stream(spark, queue), tmp_path / "second")
    publish(queue, order("a", 3))
    taken = drained(stream(spark, queue, takeOver="true"), tmp_path / "third")
    assert of(taken) == {"a": [(3, 3)]}
    with pytest.raises(Exception, match="the queue belongs to"):
        drained(stream(spark, queue), tmp_path / "first")


def test_what_was_published_through_sql_comes_in_its_place(queue):
    with queue.session() as tx:
        body = "convert_to('x', 'UTF8')"
        given = """'{"customer": "a", "version": 1}'::jsonb"""
        tx.connection.execute(f"SELECT {queue.schema}.publish('order', {body}, {given})")
    publish(queue, order("a", 2))
    with PipelineFeed(queue.dsn, queue.schema, queue="orders") as feed:
        reader, batch, messages = feed.next("", 0, None)
        (part,) = feed.parts(reader, 0, batch)
        (rows,) = feed.read(0, batch, part, {})
    assert messages == 2
    assert rows.column("ordinal").to_pylist() == rows.column("sequence").to_pylist() == [1, 2]


def test_a_queue_without_order(spark, queue, tmp_path):
    publish(queue, *(order("a", one) for one in range(1, 31)))
    found = drained(stream(spark, queue, "loose", maxMessagesPerTrigger=20), tmp_path / "checkpoint")
    assert [len(rows) for rows in found.values()] == [20, 10]
    rows = [row for each in found.values() for row in each]
    assert {row.version for row in rows} == set(range(1, 31))
    assert {(row.group, row.sequence, row.ordinal, row.late) for row in rows} == {(None, None, None, False)}


def test_what_is_there_now(spark, queue):
    publish(queue, order("a", 2), order("b", 1))
    reader = spark.read.format("seriatim").option("dsn", queue.dsn).option("schema", queue.schema)
    rows = reader.option("queue", "orders").load().collect()
    assert sorted((row.group, row.sequence, row.ordinal) for row in rows) == [("a", 2, None), ("b", 1, None)]
    spool = spark.read.format("seriatim").option("dsn", queue.dsn).option("schema", queue.schema).load()
    assert "group" not in spool.columns
    assert sorted(row.customer for row in spool.collect()) == ["a", "b"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"queue": "order"}, "there is no queue 'order' (did you mean 'orders'?)"),
        ({"queue": "orders", "maxMessages": "5"}, "unknown option 'maxmessages'"),
        ({"queue": "orders", "maxMessagesPerTrigger": "0"}, "maxMessagesPerTrigger can't be '0'"),
        ({}, "a stream reads a queue"),
        ({"queue": "orders", "dsn": "postgresql://who:hush-hush@nowhere/db"}, "the DSN has a password in it"),
        ({"queue": "orders", "dsn": "host=/nowhere dbname=orders"}, "/nowhere:5432/orders"),
    ],
)
def test_options_that_cannot_be(spark, queue, tmp_path, options, said):
    reader = spark.readStream.format("seriatim").option("dsn", queue.dsn).option("schema", queue.schema)
    with pytest.raises(Exception) as caught:
        drained(reader.options(**options).load(), tmp_path / "checkpoint")
    assert said in str(caught.value)
    assert "hush-hush" not in str(caught.value)


def test_a_schema_of_ones_own(spark, queue, tmp_path):
    publish(queue, order("a", 1))

    def with_schema(reader, columns):
        reader = reader.format("seriatim").option("dsn", queue.dsn).option("schema", queue.schema)
        return reader.option("queue", "orders").schema(columns).load()

    (row,) = with_schema(spark.read, "version long, nobodys int, message_id string").collect()
    assert (row.version, row.nobodys) == (1, None)
    with pytest.raises(Exception, match="the column 'customer' is string, not bigint"):
        with_schema(spark.read, "customer long").collect()
    with pytest.raises(Exception, match="the column 'customer' is string, not bigint"):
        drained(with_schema(spark.readStream, "customer long"), tmp_path / "checkpoint")


def test_a_property_with_the_name_of_a_column(spark, box):
    box.define(sq.MessageType("odd", properties={"late": "boolean"}), sq.Queue("odd", policy=sq.Unordered()))
    reader = spark.read.format("seriatim").option("dsn", box.dsn).option("schema", box.schema).option("queue", "odd")
    with pytest.raises(Exception, match="the property 'late' would have the name of another column"):
        reader.load()
    assert "p_late" in reader.option("prefix", "p_").load().columns
