"""Receiving from a queue: in order, once, by one at a time; what is put back, and what waits."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

import seriatim as sq
from seriatim.box.turns import waiting
from seriatim.operations import invariants, subscriptions
from tests.databases import box_with

pytestmark = pytest.mark.telling

PATIENCE_S = 120

ORDER = sq.MessageType("order", properties={"customer": "string", "version": "long", "level": "long"})


def order(customer, version=None, **context):
    return sq.Message(
        type="order",
        body=f"{customer}-{version}".encode(),
        context={"customer": customer, "version": version} | context,
    )


def with_orders(box):
    """A box with one queue, `orders`, that every order goes to."""
    box.define(
        ORDER,
        sq.Queue("orders", policy=sq.Standard(), group="customer", sequence="version", priority="level"),
        sq.Subscription("all", where="type = 'order'", to="orders"),
    )


queue = box_with(with_orders)


def publish(box, *messages, **when):
    with box.session() as tx:
        return tx.publish(messages, **when)


def drain(box, name="orders", limit=10):
    """All that can be received now, each delivery in a transaction of its own: group and sequences (or bodies)."""
    found = []
    while True:
        with box.session() as tx:
            delivery = tx.receive(name, limit=limit)
            if delivery is None:
                return found
            found.append((delivery.group, [message.sequence for message in delivery]))


def count(box, table):
    with box.session() as tx:
        return tx.connection.execute(f"SELECT count(*) FROM {box.schema}.{table}").fetchone()[0]


def test_in_order_and_once(queue):
    publish(queue, order("a", 2), order("b", 1), order("a", 1), order("a", 1), order("a", 4))
    assert drain(queue) == [("a", [1, 2]), ("b", [1])]
    assert drain(queue) == []
    publish(queue, order("a", 3))
    assert drain(queue) == [("a", [3, 4])]


def test_a_message_as_it_was_published(queue):
    moment = datetime(2026, 3, 1, 12, 0, 0, 7, tzinfo=UTC)
    queue.define(sq.MessageType("full", properties={
        "customer": "string", "version": "long", "price": "decimal(10,2)", "weight": "double", "paid": "boolean",
        "at": "timestamp", "none": "string",
    }), sq.Subscription("full", where="type = 'full'", to="orders"))  # fmt: skip
    context = {
        "customer": "é☃", "version": 1, "price": sq_decimal("3.10"), "weight": 1e300, "paid": True, "at": moment, "none": None,
    }  # fmt: skip
    given = sq.Message(type="full", body=b"\0\xff", context=context, content_type="text/plain")
    publish(queue, given)
    with queue.session() as tx:
        (message,) = tx.receive("orders")
    assert (message.message_id, message.type, message.body) == (given.message_id, "full", b"\0\xff")
    assert message.context == context
    assert {name: type(value) for name, value in message.context.items()} == {n: type(v) for n, v in context.items()}
    assert (message.sequence, message.ordinal, message.late, message.attempt) == (1, 1, False, 1)
    assert (message.ticket.location, message.ticket.number) == ("box", 1)
    assert message.subscriptions == ("full",)
    assert isinstance(message, sq.Message)


def sq_decimal(text):
    from decimal import Decimal

    return Decimal(text)


def test_iterated_to_the_end_it_is_gone(queue):
    publish(queue, order("a", 1), order("a", 2))
    with queue.session() as tx:
        assert len(list(tx.receive("orders", limit=10))) == 2
    assert (count(queue, "entries"), count(queue, "spool")) == (0, 0)


def test_not_completed_it_is_put_back(queue):
    publish(queue, order("a", 1), order("a", 2), order("a", 3))
    with queue.session() as tx:
        for message in tx.receive("orders", limit=2):
            assert message.sequence == 1
            break
    with queue.session() as tx:
        tx.receive("orders", limit=2)
        again = tx.receive("orders", limit=1)  # the first is put back before
        assert [message.ordinal for message in again] == [1]
    assert drain(queue) == [("a", [2, 3])]


def test_rolled_back_it_is_as_before(queue):
    publish(queue, order("a", 1), order("a", 3))

    def fail():
        with queue.session() as tx:
            assert len(list(tx.receive("orders"))) == 1
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert drain(queue) == [("a", [1])]


def test_the_rest_comes_later_in_order(queue):
    publish(queue, *(order("a", version) for version in (5, 3, 1, 4, 2)))
    assert drain(queue, limit=2) == [("a", [1, 2]), ("a", [3, 4]), ("a", [5])]


@pytest.mark.parametrize("backlog", [3, 150])
def test_what_has_come_meanwhile_comes_with_the_rest(queue, backlog):
    publish(queue, *(order("a", version) for version in range(1, backlog + 1)))
    assert drain_one(queue, limit=1) == [1]
    publish(queue, order("a", backlog + 1))
    assert drain_one(queue, limit=1000) == list(range(2, backlog + 2))


def drain_one(box, limit):
    with box.session() as tx:
        return [message.sequence for message in tx.receive("orders", limit=limit)]


def test_one_group_at_a_time(queue):
    publish(queue, order("a", 1), order("a", 2), order("b", 1))
    with queue.session() as one, queue.session() as two, queue.session() as three:
        first = one.receive("orders")
        second = two.receive("orders")
        assert (first.group, second.group, three.receive("orders")) == ("a", "b", None)
        first.done()
        second.done()
    assert drain(queue) == [("a", [2])]


def test_only_the_named_group(queue):
    publish(queue, order("a", 1), order("b", 1))
    with queue.session() as tx:
        assert tx.receive("orders", group="c") is None
        delivery = tx.receive("orders", group="b")
        assert delivery.group == "b"
        delivery.done()
    assert drain(queue) == [("a", [1])]


def test_publishing_does_not_wait_for_a_worker(queue):
    publish(queue, order("a", 1))
    with queue.session() as working:
        delivery = working.receive("orders")
        with queue.session() as tx:
            tx.connection.execute("SET LOCAL lock_timeout = '100ms'")
            tx.publish([order("a", 2), order("b", 1)])
        delivery.done()
    assert drain(queue) == [("b", [1]), ("a", [2])] or drain(queue) == []


def test_two_at_once_never_handle_a_message_twice(queue):
    """The trap: lock and read by a snapshot older than the lock."""
    publish(queue, *(order(f"c{n % 5}", n // 5 + 1) for n in range(200)))
    handled, lock = [], threading.Lock()

    def work():
        while True:
            with queue.session() as tx:
                delivery = tx.receive("orders", limit=3)
                if delivery is None:
                    with queue.session() as look:
                        left = look.connection.execute(f"SELECT count(*) FROM {queue.schema}.entries").fetchone()[0]
                    if not left:
                        return
                    continue
                got = [(delivery.group, message.ordinal) for message in delivery]
            with lock:
                handled.extend(got)

    with ThreadPoolExecutor(6) as threads:
        for done in [threads.submit(work) for _ in range(6)]:
            done.result()
    assert sorted(handled) == sorted((f"c{group}", ordinal) for group in range(5) for ordinal in range(1, 41))
    for group in range(5):
        ordinals = [ordinal for key, ordinal in handled if key == f"c{group}"]
        assert len(ordinals) == 40


def test_priority_counts_for_ten_seconds_a_level(queue):
    publish(queue, order("middle", 1))
    publish(queue, order("high", 1, level=10))
    publish(queue, order("low", 1, level=1))
    assert [group for group, _ in drain(queue)] == ["high", "middle", "low"]
    publish(queue, order("old", 1, level=5))
    with queue.session() as tx:
        tx.connection.execute(f"UPDATE {queue.schema}.entries SET rank = rank - 60 * 1000000")
    publish(queue, order("new", 1, level=10))
    assert [group for group, _ in drain(queue)] == ["old", "new"]  # waited a minute: no priority is ahead of it


def test_visible_later(queue):
    publish(queue, order("a", 1))
    publish(queue, order("a", 2), delay="1h")
    publish(queue, order("a", 3), order("b", 1))
    assert drain(queue) == [("a", [1]), ("b", [1])]  # 3 waits behind 2
    with queue.session() as tx:
        state = tx.connection.execute(f"SELECT status, ordinal FROM {queue.schema}.entries ORDER BY ordinal").fetchall()
    assert state == [("queued", 2), ("queued", 3)]  # ordered at once
    publish(queue, order("d", 1), visible_at=datetime.now(UTC) + timedelta(milliseconds=300))
    with queue.session() as tx:
        assert [message.body for message in tx.receive("orders", wait=PATIENCE_S)] == [b"d-1"]


def test_what_a_stopped_subscription_keeps_back_breaks_no_law(queue):
    publish(queue, order("a", 1))
    subscriptions.stop(queue, "all")
    publish(queue, order("a", 2), order("b", 1))
    assert drain(queue) == []
    assert invariants.broken(queue) == []
    subscriptions.start(queue, "all")
    assert drain(queue) == [("a", [1, 2]), ("b", [1])]


def test_without_order(box):
    box.define(sq.Queue("any", policy=sq.Unordered()), sq.Subscription("all", where="TRUE", to="any"))
    ids = publish(box, *(sq.Message(type="t") for _ in range(5)))
    with box.session() as one, box.session() as two:
        first, second = one.receive("any", limit=2), two.receive("any", limit=10)
        assert (first.group, len(first), len(second)) == (None, 2, 3)
        assert {message.message_id for message in (*first.messages, *second.messages)} == set(ids)
        assert first.messages[0].ordinal is None
        second.done()
    with box.session() as tx:
        assert len(list(tx.receive("any", limit=10))) == 2
    assert count(box, "spool") == 0
    with box.session() as tx, pytest.raises(sq.UsageError, match="has no groups"):
        tx.receive("any", group="a")


def test_each_queue_gets_it_once_and_the_body_is_there_once(box):
    box.define(
        ORDER,
        sq.Queue("one", policy=sq.Fifo(), group="customer"),
        sq.Queue("two", policy=sq.Fifo(), group="customer"),
        sq.Subscription("a", where="version >= 1", to="one"),
        sq.Subscription("b", where="customer = 'c'", to="one"),
        sq.Subscription("c", where="TRUE", to="two"),
    )
    publish(box, order("c", 1), order("d", 0), sq.Message(type="order", context={"customer": "e", "to": "one"}))
    assert (count(box, "spool"), count(box, "entries")) == (3, 5)
    with box.session() as tx:
        (message,) = tx.receive("one")
        assert message.subscriptions == ("a", "b")
    with box.session() as tx:
        (message,) = tx.receive("one")
        assert (message.context["customer"], message.subscriptions) == ("e", ())  # addressed
    assert [group for group, _ in drain(box, "two")] == ["c", "d", "e"]


def test_a_full_wait_wakes_at_once(queue):
    received = []

    def wait():
        with queue.session() as tx:
            delivery = tx.receive("orders", wait=30)
            received.extend(message.sequence for message in delivery or ())

    waiting = threading.Thread(target=wait)
    waiting.start()
    while not count(queue, "waiters"):
        pass
    publish(queue, order("a", 1))
    waiting.join(PATIENCE_S)
    assert received == [1]
    assert count(queue, "waiters") == 0


def test_who_was_called_listens_no_more_also_where_what_he_got_is_rolled_back(queue):
    def receive(box):
        with box.session() as tx:
            delivery = tx.receive("orders", wait=PATIENCE_S)
            raise ValueError([message.sequence for message in delivery])

    with sq.MessageBox.open(queue.dsn, schema=queue.schema, connections=1) as box, ThreadPoolExecutor(1) as thread:
        received = thread.submit(receive, box)
        while not count(queue, "waiters"):
            assert not received.done()
        publish(queue, order("a", 1))
        with pytest.raises(ValueError, match=r"\[1\]"):
            received.result(PATIENCE_S)
        with box.session() as tx:
            assert tx.connection.execute("SELECT pg_listening_channels()").fetchall() == []
    assert drain(queue) == [("a", [1])]


def test_who_is_called_for_another_group_passes_the_call_on(queue, monkeypatch):
    monkeypatch.setattr(waiting, "_LOOK_S", PATIENCE_S)  # nobody looks by himself

    def wait(group):
        with queue.session() as tx:
            return [message.sequence for message in tx.receive("orders", limit=5, group=group, wait=PATIENCE_S) or ()]

    with ThreadPoolExecutor(4) as threads:
        found = []

        def add(group, waiting):
            found.append(threads.submit(wait, group))
            while count(queue, "waiters") < waiting:
                pass

        for number, group in enumerate(("b", "c", "a"), 1):
            add(group, number)
        publish(queue, order("a", 1))
        assert found[2].result(PATIENCE_S / 2) == [1]
        add(None, 3)  # not before: it looks once before it waits, and would take the message of "a"
        publish(queue, order("d", 1), order("d", 2))
        assert found[3].result(PATIENCE_S / 2) == [1, 2]
        publish(queue, order("c", 1))
        assert found[1].result(PATIENCE_S / 2) == [1]
        publish(queue, order("b", 1))
        assert found[0].result(PATIENCE_S / 2) == [1]


@pytest.mark.parametrize(("table", "waits"), [("waiters", 0), ("known_groups", 1)], ids=["it registers", "it looks"])
def test_what_goes_wrong_in_a_wait_is_told_and_the_connection_waits_no_more(queue, table, waits):
    def receive(box):
        with box.session() as tx:
            return tx.receive("orders", wait=PATIENCE_S)

    with (
        sq.MessageBox.open(queue.dsn, schema=queue.schema, connections=1) as box,
        psycopg.connect(queue.dsn, autocommit=True) as watching,
        psycopg.connect(queue.dsn) as locking,
        ThreadPoolExecutor(1) as thread,
    ):
        if not waits:
            locking.execute(f"LOCK TABLE {queue.schema}.{table}")
        received = thread.submit(receive, box)
        if waits:
            while count(queue, "waiters") < waits:
                pass
            locking.execute(f"LOCK TABLE {queue.schema}.{table}")
        cancel = "SELECT pg_cancel_backend(pid) FROM pg_locks WHERE relation = %s::regclass AND NOT granted"
        while not watching.execute(cancel, [f"{queue.schema}.{table}"]).fetchall():
            assert not received.done()
        with pytest.raises(sq.Unavailable, match="canceling statement"):
            received.result(PATIENCE_S)
        locking.rollback()
        with box.session() as tx:
            assert tx.connection.execute("SELECT pg_listening_channels()").fetchall() == []
        assert count(queue, "waiters") == 0


def test_a_wait_in_a_transaction_is_refused(queue):
    with queue.session() as tx:
        tx.connection.execute("SELECT 1")
        with pytest.raises(sq.UsageError, match="can't wait in the middle of a transaction"):
            tx.receive("orders", wait=1)
    with (
        psycopg.connect(queue.dsn) as connection,
        queue.session(connection) as tx,
        pytest.raises(sq.UsageError, match="can't wait"),
    ):
        tx.receive("orders", wait="5s")


def test_a_wait_in_the_drivers_pipeline_is_refused(queue):
    with (
        queue.session() as tx,
        tx.connection.pipeline(),
        pytest.raises(sq.UsageError, match="can't wait in the driver's pipeline"),
    ):
        tx.receive("orders", wait=1)


def test_a_notification_of_the_applications_ends_no_wait(queue):
    with ThreadPoolExecutor(1) as others:
        with queue.session() as tx:
            # Within a transaction, a connection begins to listen at its commit: behind this session's reset.
            tx.connection.execute("LISTEN jobs")
            tx.connection.commit()
            pid = tx.connection.info.backend_pid
            received = others.submit(_noticed, queue, pid)
            assert tx.receive("orders", wait=PATIENCE_S).messages[0].sequence == 1
        received.result(PATIENCE_S)


def _noticed(queue, pid):
    """Notify a receiver of something else, once it waits, and then publish."""
    with psycopg.connect(queue.dsn, autocommit=True) as connection:
        waits = f"SELECT count(*) FROM {queue.schema}.waiters WHERE channel = %s"
        while connection.execute(waits, [f"seriatim_{pid}"]).fetchone() == (0,):
            pass
        connection.execute("NOTIFY jobs, 'hello'")
        connection.execute("NOTIFY jobs")
    publish(queue, order("a", 1))


def test_a_wait_ends(queue):
    with queue.session() as tx:
        assert tx.receive("orders", wait=0.05) is None


def test_in_the_callers_transaction(queue):
    publish(queue, order("a", 1), order("a", 2))
    with psycopg.connect(queue.dsn) as connection:
        with queue.session(connection) as tx:
            assert [message.sequence for message in tx.receive("orders")] == [1]
        connection.rollback()
        with queue.session(connection) as tx:
            assert [message.sequence for message in tx.receive("orders")] == [1]
        connection.commit()
    assert drain(queue) == [("a", [2])]


def test_a_snapshot_older_than_the_lock_is_refused(queue):
    publish(queue, order("a", 1))
    with psycopg.connect(queue.dsn) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        with queue.session(connection) as tx, pytest.raises(sq.UsageError, match="READ COMMITTED"):
            tx.receive("orders")


@pytest.mark.parametrize(
    ("call", "what"),
    [
        ({"queue": "order"}, "there is no queue 'order'"),
        ({"queue": "orders", "limit": 0}, "cannot receive 0 messages"),
        ({"queue": "orders", "limit": True}, "True messages"),
        ({"queue": "orders", "wait": "soon"}, "is not a duration"),
    ],
)
def test_wrong_calls(queue, call, what):
    with queue.session() as tx, pytest.raises(sq.UsageError, match=what):
        tx.receive(call.pop("queue"), **call)


def test_a_queue_that_is_off(queue):
    publish(queue, order("a", 1))
    queue.define(sq.Queue("orders", policy=sq.Standard(), group="customer", sequence="version", enabled=False))
    with queue.session() as tx, pytest.raises(sq.ActionRefused, match="the queue is off"):
        tx.receive("orders")
    publish(queue, order("a", 2))
    queue.define(sq.Queue("orders", policy=sq.Standard(), group="customer", sequence="version"))
    assert drain(queue) == [("a", [1, 2])]


def test_unrouted_is_kept_with_the_reason(queue):
    publish(queue, sq.Message(type="other"), sq.Message(type="order", context={"nope": 1}))
    with queue.session() as tx:
        problems = tx.connection.execute(f"SELECT problem FROM {queue.schema}.unrouted ORDER BY position").fetchall()
    assert problems == [(None,), ("type 'order' declares no property 'nope'",)]


def test_invalid_in_its_queue(queue):
    publish(queue, order(None, 1), order("a"), order("x" * 2000, 1), order("a", 1))
    assert drain(queue) == [("a", [1])]
    with queue.session() as tx:
        rows = tx.connection.execute(
            f"SELECT disposition, reason FROM {queue.schema}.aside ORDER BY entry_id"
        ).fetchall()
    assert rows == [
        ("invalid", "the group key is missing"),
        ("invalid", "the sequence is missing"),
        ("invalid", "the group key is longer than 1 KiB"),
    ]


def test_a_new_subscription_counts_from_the_next_publish_on(queue):
    with queue.session() as tx:
        tx.publish(order("a", 1))
        with sq.MessageBox.open(queue.dsn, schema=queue.schema) as another:
            another.define(
                sq.Queue("copies", policy=sq.Fifo(), group="customer"),
                sq.Subscription("copies", where="TRUE", to="copies"),
            )
        tx.publish(order("a", 2))
    assert [group for group, _ in drain(queue, "copies")] == ["a"]
    assert drain(queue) == [("a", [1, 2])]


def test_commit_order_over_publishers_is_the_order_of_a_fifo(box):
    """A number taken early doesn't come first: what counts is who commits first."""
    box.define(
        sq.MessageType("t", properties={"group": "string"}),
        sq.Queue("fifo", policy=sq.Fifo(), group="group"),
        sq.Subscription("all", where="TRUE", to="fifo"),
    )
    with box.session() as early:
        early.publish(sq.Message(type="t", body=b"second", context={"group": "g"}))
        publish(box, sq.Message(type="t", body=b"first", context={"group": "g"}))
    with box.session() as tx:
        assert [message.body for message in tx.receive("fifo", limit=10)] == [b"first", b"second"]


def test_what_the_transaction_itself_has_published_is_not_received_in_it(box):
    box.define(
        sq.MessageType("order", properties={"customer": "string"}),
        sq.Queue("own", policy=sq.Fifo(), group="customer"),
        sq.Subscription("own", where="TRUE", to="own"),
    )
    with box.session() as tx:
        tx.publish(sq.Message(type="order", context={"customer": "c1"}))
    with box.session() as tx:
        tx.publish([sq.Message(type="order", context={"customer": one}) for one in ("c1", "c2")])
        assert len(tx.receive("own", limit=10)) == 1
        tx.receive("own").done()
        assert tx.receive("own") is None
    with box.session() as tx:
        assert len(tx.receive("own", limit=10)) == 1
