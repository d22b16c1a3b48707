"""Queues that may have so many messages: publishers wait or are refused, but what fills a hole always gets in."""

from __future__ import annotations

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pyarrow as pa
import pytest

import seriatim as sq
from seriatim.box.pipelines.staging import Staging
from seriatim.operations.grants import grant

pytestmark = pytest.mark.dear


def order(customer, version):
    return sq.Message(type="order", context={"customer": customer, "version": version, "lines": 9})


def orders(customer, *versions):
    return [order(customer, version) for version in versions]


def define(box, most=3, policy=None, **options):
    box.define(
        sq.MessageType("order", properties={"customer": "string", "version": "long", "lines": "long"}),
        sq.Queue(
            "orders", policy=policy or sq.Standard(), group="customer", sequence="version", max_messages=most, **options
        ),
        sq.Queue("others", policy=sq.Unordered()),
        sq.Subscription("all", where="type = 'order'", to="orders"),
        sq.Subscription("rest", where="type = 'other'", to="others"),
    )
    return box


@pytest.fixture
def refusing(box):
    """A box with a queue, `orders`, that may have three messages and refuses more."""
    return define(box, when_full="refuse")


@pytest.fixture
def waiting(box):
    """A box with a queue, `orders`, that may have three messages; publishers wait."""
    return define(box)


def publish(box, messages, **options):
    with box.session() as tx:
        return tx.publish(messages, **options)


def drain(box, limit=10):
    with box.session() as tx:
        delivery = tx.receive("orders", limit=limit)
        return [message.sequence for message in delivery or ()]


def count(box, table="entries"):
    with box.session() as tx:
        return tx.connection.execute(f"SELECT count(*) FROM {box.schema}.{table}").fetchone()[0]


def test_what_does_not_fit_is_refused(refusing):
    publish(refusing, orders("a", 1, 2, 3))
    with pytest.raises(
        sq.QueueFull, match="queue 'orders': 1 more don't fit: it may have 3 messages, and has room for 0"
    ) as caught:
        publish(refusing, orders("b", 1))
    assert isinstance(caught.value, sq.Unavailable)
    assert (caught.value.code, count(refusing)) == ("queue-full", 3)
    assert drain(refusing, 1) == [1]
    publish(refusing, orders("b", 1))
    with pytest.raises(sq.QueueFull):
        publish(refusing, orders("b", 2))


def test_the_transaction_goes_on(refusing):
    publish(refusing, orders("a", 1, 2))
    with refusing.session() as tx:
        with pytest.raises(sq.QueueFull, match="has room for 1"):
            tx.publish([sq.Message(type="other"), *orders("b", 1, 2)])  # nothing of the call is taken in
        tx.publish([sq.Message(type="other"), order("b", 1)])
        with pytest.raises(sq.QueueFull):  # what this transaction has published counts
            tx.publish(order("b", 2))
    assert count(refusing) == 4


def test_other_queues_are_not_full(refusing):
    publish(refusing, orders("a", 1, 2, 3))
    assert len(publish(refusing, [sq.Message(type="other") for _ in range(20)])) == 20


def test_what_fills_a_hole_gets_in(refusing):
    publish(refusing, orders("a", 3, 5, 6))
    assert drain(refusing) == []
    with pytest.raises(sq.QueueFull):
        publish(refusing, orders("a", 7))
    with pytest.raises(sq.QueueFull):
        publish(refusing, orders("b", 1))
    with pytest.raises(sq.QueueFull):  # in one call with what doesn't get in
        publish(refusing, [*orders("a", 1), *orders("b", 1)])
    publish(refusing, orders("a", 2, 1))
    assert count(refusing) == 5
    publish(refusing, orders("a", 4))
    assert drain(refusing) == [1, 2, 3, 4, 5, 6]
    publish(refusing, orders("a", 7, 9, 10))
    with pytest.raises(sq.QueueFull):  # it was delivered: no hole is there
        publish(refusing, orders("a", 6))


def test_a_hole_that_nobody_has_looked_at_yet(refusing):
    publish(refusing, orders("a", 2, 3, 4))
    publish(refusing, orders("a", 1))
    assert drain(refusing) == [1, 2, 3, 4]


def test_what_is_there_already_fills_no_hole(refusing):
    publish(refusing, orders("c1", 5, 6, 7))
    publish(refusing, orders("c1", 4))
    for version in (4, 5):
        with pytest.raises(sq.QueueFull):
            publish(refusing, orders("c1", version))


def test_the_rest_of_a_set_gets_in(box):
    define(box, policy=sq.UnitOfWork(size="lines"), when_full="refuse")
    publish(box, orders("a", 9, 2, 3))
    with pytest.raises(sq.QueueFull):
        publish(box, orders("b", 1))
    publish(box, orders("a", 1, 4, 5, 6, 7, 8))
    assert drain(box, 1) == [1, 2, 3, 4, 5, 6, 7, 8, 9]


def test_published_again_it_needs_no_room(refusing):
    known = orders("a", 1, 2, 3)
    publish(refusing, known)
    assert publish(refusing, known) == [message.message_id for message in known]
    assert count(refusing) == 3


def test_invalid_messages_need_no_room(refusing):
    publish(refusing, orders("a", 1, 2, 3))
    publish(refusing, orders(None, 1))
    assert (count(refusing), count(refusing, "aside")) == (3, 1)


def test_a_publisher_waits_for_room(waiting):
    publish(waiting, orders("a", 1, 2, 3))
    with ThreadPoolExecutor(1) as thread:
        done = thread.submit(publish, waiting, orders("a", 4, 5))
        assert naps(waiting)
        assert not done.done()
        assert drain(waiting, 1) == [1]  # room for one, and two are wanted
        assert not done.done()
        assert drain(waiting, 1) == [2]
        assert len(done.result(120)) == 2
    assert drain(waiting) + drain(waiting) == [3, 4, 5]


def naps(box):
    """Whether a publisher has looked for room and naps, without a transaction."""
    deadline = time.monotonic() + 120
    look = """
        SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid() AND state = 'idle' AND query = 'ROLLBACK'
    """
    while time.monotonic() < deadline:
        with box.session() as tx:
            if tx.connection.execute(look).fetchone()[0]:
                return True
    return False


def test_it_waits_no_longer_than_it_was_told(waiting):
    publish(waiting, orders("a", 1, 2, 3))
    with pytest.raises(sq.QueueFull, match="publish them again later"):
        publish(waiting, orders("a", 4), wait=0.05)
    with pytest.raises(sq.QueueFull):
        publish(waiting, orders("a", 4), wait=0)
    with pytest.raises(sq.UsageError, match="is not a duration"):
        publish(waiting, orders("a", 4), wait="soon")


def test_a_wait_that_takes_long_is_told_once(waiting, caplog, monkeypatch):
    monkeypatch.setattr("seriatim.box.publishing.publisher._PATIENT_S", 0.0)
    publish(waiting, orders("c1", 1, 2, 3))
    with pytest.raises(sq.QueueFull):
        publish(waiting, orders("c1", 4), wait="100ms")
    (line,) = [one for one in caplog.messages if "waits for room" in one]
    assert "queue 'orders'" in line


def test_what_can_never_fit_does_not_wait(waiting):
    with pytest.raises(sq.QueueFull, match="publish fewer at once"):
        publish(waiting, orders("a", 1, 2, 3, 4))


def test_in_the_callers_transaction_nothing_of_his_is_lost(waiting):
    publish(waiting, orders("a", 1, 2, 3))
    with psycopg.connect(waiting.dsn) as connection:
        connection.execute(f"CREATE TABLE {waiting.schema}.own (id int)")
        with waiting.session(connection) as tx, pytest.raises(sq.QueueFull):
            tx.publish(orders("a", 4), wait=0.02)
        assert connection.execute(f"SELECT count(*) FROM {waiting.schema}.own").fetchone() == (0,)


def test_a_larger_limit_lets_a_waiting_publisher_in(waiting):
    publish(waiting, orders("a", 1, 2, 3))
    with ThreadPoolExecutor(1) as thread:
        done = thread.submit(publish, waiting, orders("a", 4))
        assert naps(waiting)
        with sq.MessageBox.open(waiting.dsn, schema=waiting.schema) as another:
            define(another, most=4)
        assert len(done.result(120)) == 1
    assert count(waiting) == 4


def test_several_publishers_go_little_beyond_it(box):
    """Each may be let in by what the others haven't committed yet, and no more than that."""
    define(box, most=200)
    stop = threading.Event()

    def work(number):
        for batch in range(20):
            publish(box, orders(f"{number}-{batch}", 1, 2, 3, 4, 5))

    def consume():
        most = 0
        while not stop.is_set() or count(box):
            most = max(most, count(box))
            drain(box)
        return most

    with ThreadPoolExecutor(5) as threads:
        consumer = threads.submit(consume)
        for done in [threads.submit(work, number) for number in range(4)]:
            done.result(120)
        stop.set()
        assert consumer.result(120) <= 200 + 4 * 5


def test_a_queue_that_has_much_room_is_not_counted_for_each(box):
    define(box, most=1000)
    counted = []
    real = box._access.free_room.take
    box._access.free_room.take = lambda queue_id, some: counted.append(real(queue_id, some)) or counted[-1]
    for version in range(1, 51):
        publish(box, orders("a", version))
    assert counted.count(False) < 25
    assert count(box) == 50


def test_the_limit_is_counted_by_an_index(waiting):
    publish(waiting, orders("a", 1, 2))
    with waiting.session() as tx:
        tx.connection.execute("SET LOCAL enable_seqscan = off")
        plan = tx.connection.execute(
            f"EXPLAIN (FORMAT JSON) SELECT count(*) FROM (SELECT FROM {waiting.schema}.entries WHERE queue_id = 1 LIMIT 10)"
        ).fetchone()[0]
    assert "Index Cond" in str(plan)


def test_a_role_is_told_that_a_queue_is_full(refusing):
    role = f"{refusing.schema}_courier"
    with refusing.session() as tx:
        tx.connection.execute(f"CREATE ROLE {role} LOGIN")
    try:
        grant(refusing, role, publish=["orders"])
        dsn = refusing.dsn.replace("seriatim@", f"{role}@")
        with sq.MessageBox.open(dsn, schema=refusing.schema) as own:
            publish(own, orders("a", 1, 3, 4))
            with pytest.raises(sq.QueueFull):
                publish(own, orders("a", 5))
            publish(own, orders("a", 2))
            with pytest.raises(psycopg.errors.ConfigurationLimitExceeded):
                published(own, of("b", 1, to="orders"))
            refusing.define(sq.Queue("others", policy=sq.Unordered(), max_messages=sq.Limit(1, when_full="refuse")))
            publish(refusing, sq.Message(type="other"))
            published(own, of("a", 1, to="others"))  # he may not, so he isn't told that it is full
        with psycopg.connect(dsn) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(f"SELECT {refusing.schema}.room_in('{{2}}', '{{3}}')")
    finally:
        with refusing.session() as tx:
            tx.connection.execute(f"DROP SCHEMA {refusing.schema} CASCADE")
            tx.connection.execute(f"DROP OWNED BY {role}")
            tx.connection.execute(f"DROP ROLE {role}")


# ---- from SQL


def published(box, context):
    with psycopg.connect(box.dsn) as connection:
        connection.execute(f"SELECT {box.schema}.publish('order', '', %s::jsonb)", [json.dumps(context)])


def of(customer, version, **more):
    return {"customer": customer, "version": version, "lines": 9, **more}


def test_from_sql_what_is_routed_is_put_in_nevertheless(refusing):
    publish(refusing, orders("a", 1, 2, 3))
    published(refusing, of("b", 1))
    assert refusing.tick().routed == 1
    assert count(refusing) == 4


def test_from_sql_what_is_addressed_to_a_full_queue_is_refused(refusing):
    publish(refusing, orders("a", 1, 2, 3))
    with pytest.raises(psycopg.errors.ConfigurationLimitExceeded, match='the queue "orders" is full'):
        published(refusing, of("b", 1, to="orders"))
    assert drain(refusing, 1) == [1]
    published(refusing, of("b", 1, to="orders"))
    assert (refusing.tick().routed, count(refusing)) == (1, 3)


def test_from_sql_a_queue_that_lets_publishers_wait_takes_it(waiting):
    publish(waiting, orders("a", 1, 2, 3))
    published(waiting, of("b", 1, to="orders"))
    assert (waiting.tick().routed, count(waiting)) == (1, 4)


def test_from_sql_what_may_fill_a_hole_gets_in(refusing):
    publish(refusing, orders("a", 3, 5, 6))
    assert drain(refusing) == []
    for wrong in (of("a", 7), of("b", 1)):
        with pytest.raises(psycopg.errors.ConfigurationLimitExceeded):
            published(refusing, {**wrong, "to": "orders"})
    published(refusing, of("a", 1, to="orders"))
    published(refusing, of("a", None, to="orders"))  # it may stand in the body
    published(refusing, {"to": "orders", "version": 2})
    assert refusing.tick().routed == 3


def test_from_sql_the_rest_of_a_set_gets_in(box):
    define(box, policy=sq.UnitOfWork(size="lines"), when_full="refuse")
    publish(box, orders("a", 9, 2, 3))
    with pytest.raises(psycopg.errors.ConfigurationLimitExceeded):
        published(box, of("b", 1, to="orders"))
    published(box, of("a", 1, to="orders"))
    assert box.tick().routed == 1


def test_from_sql_published_again_it_needs_no_room(refusing):
    known = orders("a", 1, 2, 3)
    publish(refusing, known)
    with psycopg.connect(refusing.dsn) as connection:
        connection.execute(
            f"SELECT {refusing.schema}.publish('order', '', %s::jsonb, %s)",
            [json.dumps(of("a", 1, to="orders")), known[0].message_id],
        )
    assert count(refusing) == 3


# ---- from pipelines


def batch(customer, *versions):
    n = len(versions)
    columns = {"type": ["order"] * n, "customer": [customer] * n, "version": list(versions)}
    return [pa.RecordBatch.from_pydict(columns)]


def merge(box, number, rows, wait=0):
    with Staging(box.dsn, box.schema, wait=wait) as staging:
        return staging.merge("writer", number, [staging.stage("writer", number, rows)])


def test_a_batch_comes_whole_where_there_is_any_room(refusing):
    assert merge(refusing, 0, batch("a", 1, 2)) == 2
    assert merge(refusing, 1, batch("b", *range(1, 11))) == 10
    with pytest.raises(sq.QueueFull, match="queue 'orders': batch 2 waits outside: it may have 3 messages") as caught:
        merge(refusing, 2, batch("c", 1))
    assert "raise max_messages" in caught.value.remedy
    assert count(refusing) == 12
    assert merge(refusing, 1, batch("b", *range(1, 11))) == 0  # it is in the box


def test_a_batch_waits_for_room(waiting, caplog):
    merge(waiting, 0, batch("a", 1, 2, 3))
    with ThreadPoolExecutor(1) as thread:
        done = thread.submit(merge, waiting, 1, batch("b", 1, 2), "20s")
        deadline = time.monotonic() + 120
        while "queue 'orders' is full: batch 1 waits for room" not in caplog.text:
            assert time.monotonic() < deadline
            threading.Event().wait(0.005)
        assert not done.done()
        assert drain(waiting, 1) == [1]
        assert done.result(120) == 2
    assert count(waiting) == 4


def test_a_batch_waits_no_longer_than_it_was_told(waiting):
    merge(waiting, 0, batch("a", 1, 2, 3))
    with pytest.raises(sq.QueueFull):
        merge(waiting, 1, batch("b", 1), wait=0.1)
    with pytest.raises(sq.UsageError, match="is not a duration"):
        merge(waiting, 1, batch("b", 1), wait="soon")


def test_a_batch_that_fills_a_hole_gets_in(refusing):
    merge(refusing, 0, batch("a", 2, 3, 4))
    with pytest.raises(sq.QueueFull):
        merge(refusing, 1, batch("b", 1))
    assert merge(refusing, 1, [*batch("b", 1), *batch("a", 1)]) == 2
    assert drain(refusing) == [1, 2, 3, 4]


def test_a_batch_for_other_queues_does_not_wait(refusing):
    merge(refusing, 0, batch("a", 1, 2, 3))
    assert merge(refusing, 1, [pa.RecordBatch.from_pydict({"type": ["other"] * 2})]) == 2
    assert merge(refusing, 2, batch(None, 1)) == 1  # invalid there: it needs no room
