"""Unique keys: a message isn't taken in where one with its key waits in the queue."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import psycopg
import pytest
from psycopg import sql

import seriatim as sq
from seriatim.box.faults.lease import claim
from seriatim.operations import invariants, retention
from seriatim.operations.grants import grant, revoke
from tests.box.shop import rows
from tests.databases import box_with


def prepared(box):
    box.define(
        sq.MessageType("report", properties={"customer": "string", "n": "long"}),
        sq.Queue("reports", policy=sq.Unordered()),
        sq.Queue("fifo", policy=sq.Fifo(), group="customer"),
        sq.Queue("numbered", policy=sq.Standard(), group="customer", sequence="n"),
        sq.Queue("copies", policy=sq.Unordered()),
        sq.Subscription("reports", where="type = 'report' AND customer IS NULL", to="reports"),
    )


box = box_with(prepared)


def report(key="k", **context):
    return sq.Message(type="report", context={"unique_key": key, **context})


def waiting(box, queue="reports"):
    return [one.message.message_id for one in box.peek(queue, limit=1_000)]


def test_one_that_waits_isnt_taken_twice(box):
    first, second, other = sq.Message(type="report"), sq.Message(type="report"), report("other")
    taken = box.publish(first, unique="k")
    assert (list(taken), taken.left_out, taken.waiting) == ([first.message_id], [], {})
    again = box.publish(second, unique="k")
    assert list(again) == [first.message_id]
    assert (again.left_out, again.waiting) == ([second.message_id], {second.message_id: first.message_id})
    assert again.queues == {second.message_id: ("reports",)}
    box.publish(other)
    assert waiting(box) == [first.message_id, other.message_id]
    # The same message once more, whose commit was in doubt.
    repeated = box.publish(first, unique="k")
    assert (list(repeated), repeated.left_out, repeated.waiting) == ([first.message_id], [first.message_id], {})
    # It wasn't taken in, so it may be published again when the other is done.
    with box.session() as tx:
        (done,) = tx.receive("reports")
        assert done.context["unique_key"] == "k"
    assert list(box.publish(second, unique="k")) == [second.message_id]
    assert not invariants.broken(box)


def test_in_a_batch_in_one_statement(box):
    given = [report("a"), report("b"), report("a"), sq.Message(type="report"), report("b"), report("c")]
    a, b, also_a, plain, also_b, c = (one.message_id for one in given)
    with box.session() as tx:
        published = tx.publish(given)
        assert list(published) == [a, b, a, plain, b, c]
        assert published.waiting == {also_a: a, also_b: b}
        assert tx.publish([report("c"), report("d")])[0] == c  # within one transaction
    assert waiting(box)[:4] == [a, b, plain, c]
    assert len(waiting(box)) == 5
    parts = [
        sq.Message(type="report", context={"unique_key": key}, parts=[sq.Part(key, body=key.encode())]) for key in "ax"
    ]
    box.publish(parts)
    (message,) = [one.message for one in box.peek("reports") if one.message.message_id == parts[1].message_id]
    assert [one.name for one in message.parts] == ["x"]
    assert not invariants.broken(box)


def test_in_hand_it_waits_no_more(box):
    first, second = report(), report()
    box.publish(first)
    with box.session() as tx:
        assert len(tx.receive("reports")) == 1
        assert list(box.publish(second)) == [second.message_id]  # and waits for nobody
        third = report()
        with box.session() as other:
            assert list(other.publish(third)) == [second.message_id]
    # Put back it waits beside the one that came in meanwhile.
    assert waiting(box) == [first.message_id, second.message_id]
    # A handler publishes its own next one.
    with box.session() as tx:
        delivery, next_one = tx.receive("reports", limit=10), report()
        assert list(tx.publish(next_one, delay="1h")) == [next_one.message_id]
        delivery.done()
    assert waiting(box) == [next_one.message_id]


def test_in_hand_in_a_large_delivery(box):
    given = [report(f"{n}", customer="c", to="fifo") for n in range(100)]
    box.publish(given)
    with box.session() as tx:
        assert len(tx.receive("fifo", limit=80)) == 80
        assert box.publish([report(f"{n}", customer="c", to="fifo") for n in range(100)]).waiting == {}
    assert len(waiting(box, "fifo")) == 200


def test_in_a_lease_it_waits_no_more(box):
    box.publish(report(customer="c", to="fifo"))
    with box.session() as tx:
        delivery = tx.receive("fifo")
        claim(tx.transaction, delivery, 1, "w", 60_000_000)
    assert box.publish(report(customer="c", to="fifo")).waiting == {}
    assert len(box.publish(report(customer="c", to="fifo")).waiting) == 1


@pytest.mark.parametrize("mode", ["transactional", "leased"])
def test_a_handler_publishes_its_next_message(box, mode):
    """With the key of the one that it has in hand."""
    done = []

    def again(message, tx):
        done.append(tx.publish(report(customer="c", to="fifo", n=1), delay="1h").waiting)
        worker.stop()

    box.publish(report(customer="c", to="fifo"))
    worker = sq.Worker(box, "fifo", again, workers=1, mode=mode)
    worker.run()
    assert done == [{}]
    (one,) = box.peek("fifo")
    assert one.message.context["n"] == 1


def test_each_queue_by_itself(box):
    box.define(sq.Subscription("copies", where="type = 'report' AND n = 1", to="copies"))
    first, second = report(), report(n=1)
    box.publish(first)
    published = box.publish(second)
    assert (list(published), published.waiting) == ([second.message_id], {})
    assert (waiting(box), waiting(box, "copies")) == ([first.message_id], [second.message_id])
    third = report(n=1)
    assert box.publish(third).waiting[third.message_id] in (first.message_id, second.message_id)
    with box.session() as tx:
        assert len(list(tx.receive("copies"))) == 1
    assert not invariants.broken(box)


def test_by_many_at_once_one_is_taken(box):
    with ThreadPoolExecutor(8) as threads:
        done = [threads.submit(box.publish, [report(key) for key in keys]) for keys in ("abc", "cba", "bca") * 8]
        found = [one.result() for one in done]
    assert len(waiting(box)) == 3
    assert {one for published in found for one in published} == set(waiting(box))


@pytest.mark.parametrize("ends", ["commit", "rollback"])
def test_a_second_publisher_waits_for_the_end_of_the_first(box, ends):
    """Nobody knows before whether the first one's message comes."""
    first, second = report(), report()
    with psycopg.connect(box.dsn) as connection:
        with box.session(connection=connection) as tx:
            tx.publish(first)
        found = []
        thread = threading.Thread(target=lambda: found.append(box.publish(second)))
        thread.start()
        with psycopg.connect(box.dsn, autocommit=True) as looking:
            while not looking.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
            ).fetchone()[0]:
                assert thread.is_alive()
        getattr(connection, ends)()
        thread.join()
    assert list(*found) == [first.message_id if ends == "commit" else second.message_id]
    assert len(waiting(box)) == 1


def test_a_transaction_that_keeps_its_snapshot_has_to_be_repeated(box):
    with psycopg.connect(box.dsn) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.execute("SELECT 1 FROM pg_class LIMIT 1")
        box.publish(report())
        with pytest.raises(sq.Unavailable), box.session(connection=connection) as tx:
            tx.publish(report())


def test_where_numbers_would_be_missing_it_is_refused(box):
    with box.session() as tx:
        with pytest.raises(sq.UsageError, match="would be a hole"):
            tx.publish([report(), report(customer="c", n=1, to="numbered")])
        with pytest.raises(sq.UsageError, match="the unique_key is empty"):
            tx.publish(report(""))
        with pytest.raises(sq.UsageError, match="longer than 1,024 bytes"):
            tx.publish(report("é" * 513))
        with pytest.raises(sq.UsageError, match="unique is the key of one message, and there are 2"):
            tx.publish([report(), report()], unique="k")
        with pytest.raises(sq.UsageError, match="another unique_key: 'k'"):
            tx.publish(report("k"), unique="l")
    assert not waiting(box)


def test_published_from_sql_it_is_decided_when_it_is_routed(box):
    first = report()
    box.publish(first)
    with psycopg.connect(box.dsn) as connection:
        for key, more in (("k", ""), ("l", ""), ("l", ""), ("m", ', "customer": "c", "n": 1, "to": "numbered"')):
            connection.execute(f"SELECT {box.schema}.publish('report', 'x', '{{\"unique_key\": \"{key}\"{more}}}')")
    assert box.tick().routed == 4
    assert [one.message.context["unique_key"] for one in box.peek("reports")] == ["k", "l"]
    assert rows(box, "SELECT disposition, reason FROM {schema}.aside")[0][1].startswith("the queue goes by numbers")
    retention.purge(box)
    assert rows(box, "SELECT count(*) FROM {schema}.spool") == [(3,)]
    assert not invariants.broken(box)


def test_ids_are_told_within_an_id_space_only(box):
    with psycopg.connect(box.dsn, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(f"unique_{box.schema}")))
    role = f"unique_{box.schema}"
    try:
        grant(box, role, publish=["reports"])
        box.publish(report())
        dsn = psycopg.conninfo.make_conninfo(box.dsn, user=role)
        with sq.MessageBox.open(dsn, schema=box.schema) as theirs:
            mine = report()
            assert list(theirs.publish(mine)) == [mine.message_id]
            assert list(theirs.publish(report())) == [mine.message_id]
    finally:
        revoke(box, role)
        with psycopg.connect(box.dsn, autocommit=True) as connection:
            connection.execute(sql.SQL("DROP OWNED BY {0}; DROP ROLE {0}").format(sql.Identifier(role)))


def test_keys_of_messages_that_are_gone_are_cleaned_up(box):
    box.publish([report("a"), report("b")])
    with box.session() as tx:
        (one,) = tx.receive("reports")
    retention.purge(box)
    assert len(rows(box, "SELECT FROM {schema}.unique_keys")) == 2
    with box.session() as tx:
        tx.connection.execute(f"UPDATE {box.schema}.unique_keys SET claimed_at = claimed_at - %s", [timedelta(hours=2)])
    retention.purge(box)
    assert rows(box, "SELECT unique_key FROM {schema}.unique_keys") == [("b",)]
    assert one.context["unique_key"] == "a"


def test_what_goes_on_takes_no_key_along(box):
    """A failure is another message, and so is one that a handler hands on."""
    box.define(
        sq.Queue("failures", policy=sq.Unordered()), sq.Subscription("f", "type = 'seriatim.failure'", "failures")
    )
    box.publish(report("k" * 10, n="wrong", to="reports"))
    (failure,) = (one.message for one in box.peek("failures"))
    assert "unique_key" not in failure.context
