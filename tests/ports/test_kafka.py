"""Kafka in and out of the box, with librdkafka's mock cluster and with tansu."""

from __future__ import annotations

import threading
import uuid

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

import seriatim as sq
from seriatim.endpoints.kafka import KafkaPort
from seriatim.operations.faults import faults
from seriatim.operations.messages import messages
from seriatim.operations.ports import forget_ports, ports
from seriatim.operations.queues import not_done
from seriatim.runtime.ports.kafka import KafkaSource
from tests.databases import box_with
from tests.ports.cluster import mock_cluster, tansu
from tests.ports.running import running, taken, until

pytestmark = pytest.mark.dear


def prepare(box):
    box.define(
        sq.MessageType("order", properties={"customer": "string", "n": "long"}),
        sq.Queue("orders", policy=sq.Standard(), group="customer", sequence="n"),
        sq.Queue("keyed", policy=sq.Fifo(), group="source_key"),
        sq.Queue("other", policy=sq.Fifo(), group="source_key"),
        sq.Subscription("orders", where="type = 'order'", to="orders"),
        sq.Subscription("keyed", where="type = 'keyed'", to="keyed"),
        sq.Subscription("other", where="type = 'other'", to="other"),
    )


shop = box_with(prepare)


@pytest.fixture(scope="module")
def mock():
    with mock_cluster() as found:
        yield found


@pytest.fixture(scope="module")
def broker():
    with tansu() as found:
        yield found


@pytest.fixture
def cluster(mock):
    """The mock cluster: tansu 0.6 may say of a partition with five messages that it ends at offset 1, so nothing goes on there."""
    return mock


@pytest.fixture(params=["mock", "broker"])
def each(request):
    return request.getfixturevalue(request.param)


@pytest.fixture
def topic(request):
    name = f"t{uuid.uuid4().hex[:8]}"
    for fixture in ("each", "cluster"):
        if fixture in request.fixturenames:
            request.getfixturevalue(fixture).create(name)
    return name


def order(customer, n, kind="order"):
    return (
        customer,
        b'{"n": %d}' % n,
        {"type": kind, "customer": customer, "n": str(n), "content_type": "application/json"},
    )


def came(box):
    return sum(one.taken for one in ports(box))


@pytest.mark.telling
def test_messages_come_in_by_their_offsets(each, topic, shop):
    each.send(topic, [order(f"c{n % 3}", n // 3 + 1) for n in range(30)])
    with running(sq.ReceivePort(shop, KafkaSource(each.servers, topic))):
        until(lambda: came(shop) == 30)
    got = taken(shop, "orders")
    for customer in ("c0", "c1", "c2"):
        assert [message.sequence for message in got if message.group == customer] == list(range(1, 11))
    first = got[0]
    assert first.content_type == "application/json"
    place = first.context["source_partition"]
    assert first.message_id.startswith("kafka/")
    assert f"/{place}/{first.context['source_position']}/" in first.message_id
    assert first.context["source_key"] == first.group
    assert {one.partition: int(one.position) for one in ports(shop) if one.taken} == {
        one.partition: one.taken for one in ports(shop) if one.taken
    }


def test_it_goes_on_where_the_box_is_and_once_only(cluster, topic, shop):
    for begin in (0, 10, 20):
        cluster.send(topic, [order("c1", n + 1, "keyed") for n in range(begin, begin + 10)])
        with running(sq.ReceivePort(shop, KafkaSource(cluster.servers, topic))):
            until(lambda begin=begin: came(shop) == begin + 10)
    assert [message.context["n"] for message in taken(shop, "keyed")] == [str(n + 1) for n in range(30)]
    assert sum(one.left_out for one in ports(shop)) == 0
    forget_ports(shop, f"kafka-{topic}", actor="anna", reason="read all again")
    with running(sq.ReceivePort(shop, KafkaSource(cluster.servers, topic))):
        until(lambda: sum(one.left_out for one in ports(shop)) == 30)
    assert taken(shop, "keyed") == []


def test_a_port_that_starts_at_the_latest_does_so_once(cluster, topic, shop):
    cluster.send(topic, [order(f"c{n}", 0, "keyed") for n in range(20)])
    with running(sq.ReceivePort(shop, KafkaSource(cluster.servers, topic, start="latest"))):
        until(lambda: sum(one.is_held for one in ports(shop)) == 4)
    cluster.send(topic, [order(f"c{n}", 1, "keyed") for n in range(20)])  # nobody reads
    with running(sq.ReceivePort(shop, KafkaSource(cluster.servers, topic, start="latest"))):
        until(lambda: sum(one.is_held for one in ports(shop)) == 4)
        cluster.send(topic, [order(f"c{n}", 2, "keyed") for n in range(20)])
        got = []
        until(lambda: got.extend(taken(shop, "keyed")) or sum(one.context["n"] == "2" for one in got) == 20)
    for customer in range(20):
        assert [one.context["n"] for one in got if one.group == f"c{customer}"] == ["1", "2"]


def test_a_partition_that_is_added_to_a_port_is_read_from_its_beginning(cluster, topic, shop):
    cluster.send(topic, [order(f"c{n}", 0, "keyed") for n in range(20)])
    with running(sq.ReceivePort(shop, KafkaSource(cluster.servers, topic, start="latest"))):
        until(lambda: sum(one.is_held for one in ports(shop)) == 4)
    added = f"{topic}/2"
    with shop.session() as tx:  # as though the topic had it only since
        tx.connection.execute(f"DELETE FROM {shop.schema}.ports WHERE partition = %s", [added])
    consumer = Consumer({"bootstrap.servers": cluster.servers, "group.id": "test"})
    _, messages_of_it = consumer.get_watermark_offsets(TopicPartition(topic, 2), 30)
    consumer.close()
    assert messages_of_it > 0
    with running(sq.ReceivePort(shop, KafkaSource(cluster.servers, topic, start="latest"))):
        until(lambda: sum(one.is_held for one in ports(shop)) == 4 and came(shop) >= messages_of_it)
    got = taken(shop, "keyed")
    assert [one.context["source_partition"] for one in got] == [added] * messages_of_it


def test_a_message_without_a_key_or_a_body(each, topic, shop):
    each.send(topic, [(None, b"", {"type": "keyed"}), ("k", b"", {"type": "keyed"})])
    with running(sq.ReceivePort(shop, KafkaSource(each.servers, topic))):
        until(lambda: came(shop) == 2)
    assert [message.group for message in taken(shop, "keyed")] == ["k"]
    (invalid,) = [one for one in messages(shop) if one.status == "invalid"]
    assert invalid.reason == "the group key is missing"


def test_a_partition_whose_queue_is_full_is_paused_and_the_others_go_on(each, topic, shop):
    shop.define(sq.Queue("keyed", policy=sq.Fifo(), group="source_key", max_messages=1))
    each.send(topic, [order("a", n, "keyed") for n in range(5)])
    with running(sq.ReceivePort(shop, KafkaSource(each.servers, topic))):
        until(lambda: any(one.problem for one in ports(shop)))
        each.send(topic, [order(f"k{n}", 1, "other") for n in range(20)])
        elsewhere = until(lambda: taken(shop, "other"))
        assert elsewhere
        got = []
        while len(got) < 5:
            got += until(lambda: taken(shop, "keyed"))
        assert [message.context["n"] for message in got] == [str(n) for n in range(5)]
        until(lambda: came(shop) == 25)
        until(lambda: not any(one.problem for one in ports(shop)))


def test_a_partition_is_read_by_one_process_at_a_time(cluster, topic, shop):
    cluster.send(topic, [order("c1", n, "keyed") for n in range(5)])
    with running(sq.ReceivePort(shop, KafkaSource(cluster.servers, topic), lease="60s")) as first:
        until(lambda: came(shop) == 5)
        with running(sq.ReceivePort(shop, KafkaSource(cluster.servers, topic), lease="60s")):
            holders = {one.holder for one in ports(shop)}
            assert len(holders) == 1
            first.stop()
            until(lambda: {one.holder for one in ports(shop)}.isdisjoint(holders))
            cluster.send(topic, [order("c1", n, "keyed") for n in range(5, 10)])
            until(lambda: came(shop) == 10)
    assert [message.context["n"] for message in taken(shop, "keyed")] == [str(n) for n in range(10)]


def test_a_holder_that_has_lost_its_partition_commits_nothing(cluster, topic, shop):
    cluster.send(topic, [order("c1", n, "keyed") for n in range(5)])
    source = KafkaSource(cluster.servers, topic)
    slow = sq.ReceivePort(shop, source)
    slow._claim()
    pending = until(lambda: source.take(10, 0.1))
    with shop.session() as tx:  # its lease runs out while it stands still
        tx.connection.execute(f"UPDATE {shop.schema}.ports SET expires_at = clock_timestamp()")
    with running(sq.ReceivePort(shop, KafkaSource(cluster.servers, topic))):
        until(lambda: came(shop) == 5)
        with pytest.raises(Exception, match=pending[0].partition):
            slow._commit(pending)
    source.close()
    assert len(taken(shop, "keyed")) == 5


def test_a_partition_that_moves_while_a_transaction_is_open(cluster, topic, shop):
    cluster.send(topic, [order("c1", n, "keyed") for n in range(5)])
    ours = [sq.ReceivePort(shop, KafkaSource(cluster.servers, topic), lease="2s") for _ in range(2)]
    with shop.session() as tx, running(ours[0]):
        until(lambda: holders(shop))
        tx.connection.execute(f"LOCK TABLE {shop.schema}.message_ids IN SHARE MODE")
        cluster.send(topic, [order("c1", n, "keyed") for n in range(5, 10)])
        until(lambda: waiting(shop) == 1)
        before = holders(shop)
        with running(ours[1]):  # it claims what the first one can't keep, and takes the same messages
            until(lambda: len(holders(shop) | before) == 2 and waiting(shop) == 2)
            tx.connection.rollback()
            until(lambda: came(shop) == 10)
    assert [message.context["n"] for message in taken(shop, "keyed")] == [str(n) for n in range(10)]


def test_what_a_failover_has_lost_is_read_again_from_the_position_that_is_left(cluster, topic, shop):
    cluster.send(topic, [order("c1", n, "keyed") for n in range(5)])
    with running(sq.ReceivePort(shop, KafkaSource(cluster.servers, topic), lease="1h")):
        until(lambda: came(shop) == 5)
        with shop.session() as tx:  # a standby that doesn't have the last commit, but has the claim
            tx.connection.execute(f"UPDATE {shop.schema}.ports SET position = '2' WHERE taken > 0")
        cluster.send(topic, [order("c1", n, "keyed") for n in range(5, 10)])
        until(lambda: "10" in {one.position for one in ports(shop)})
    assert sum(one.left_out for one in ports(shop)) == 3


def test_a_full_partition_that_a_failover_has_set_back_is_read_on(cluster, topic, shop):
    shop.define(sq.Queue("keyed", policy=sq.Fifo(), group="source_key", max_messages=1))
    cluster.send(topic, [order("c1", n, "keyed") for n in range(5)])
    got = []
    with running(sq.ReceivePort(shop, KafkaSource(cluster.servers, topic), lease="1h")):
        until(lambda: any(one.problem for one in ports(shop)))
        with shop.session() as tx:
            tx.connection.execute(f"UPDATE {shop.schema}.ports SET position = '0' WHERE taken > 0")
        while "5" not in {one.position for one in ports(shop)}:
            got += until(lambda: taken(shop, "keyed") or ("5" in {one.position for one in ports(shop)} and [None]))
    got += taken(shop, "keyed")
    assert [message.context["n"] for message in got if message] == [str(n) for n in range(5)]


def holders(box):
    return {one.holder for one in ports(box)}


def waiting(box):
    """The transactions of the box that wait for a lock."""
    locked = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    with box.session() as tx:
        return tx.connection.execute(locked).fetchone()[0]


def test_poison_is_kept_with_its_reason_and_holds_up_nobody(cluster, topic, shop):
    cluster.send(topic, [("c1", b"1", {"type": "order", "customer": "c1", "n": "no number"}), order("c1", 1)])
    with running(sq.ReceivePort(shop, KafkaSource(cluster.servers, topic))):
        until(lambda: came(shop) == 2)
    assert [message.sequence for message in taken(shop, "orders")] == [1]
    (kept,) = [one for one in messages(shop) if one.status in ("invalid", "unrouted")]
    assert kept.reason


def test_a_body_of_a_hundred_megabytes(cluster, topic, shop):
    body = b"x" * 100_000_000
    producer = Producer({"bootstrap.servers": cluster.servers, "message.max.bytes": 200_000_000, "log_level": 0})
    producer.produce(topic, value=body, key="k", headers={"type": "keyed"})
    assert producer.flush(60) == 0
    options = {
        "fetch.message.max.bytes": "200000000",
        "receive.message.max.bytes": "300000000",
        "fetch.max.bytes": "200000000",
    }
    with running(sq.ReceivePort(shop, KafkaSource(cluster.servers, topic, options=options))):
        until(lambda: came(shop) == 1)
    assert taken(shop, "keyed")[0].body == body


@pytest.mark.proves(
    "a port says that a broker has come back without its messages, and reads nothing of the new topic under the old name"
)
def test_a_broker_that_dies_and_comes_back_without_its_messages(shop):
    name = "keyed"
    with tansu() as broker:
        broker.create(name)
        broker.send(name, [order("c1", n, "keyed") for n in range(5)])
        port = sq.ReceivePort(shop, KafkaSource(broker.servers, name))
        with running(port):
            until(lambda: came(shop) == 5)
            broker.kill()
            until(port.late)
            broker.start()  # it has had its messages in memory
            broker.create(name)
            until(lambda: any("the topic was made anew" in text for text in port.late()))
        again = sq.ReceivePort(shop, KafkaSource(broker.servers, name, name="anew"))
        with running(again):
            broker.send(name, [order("c1", n, "keyed") for n in range(5, 10)])  # with the offsets of the former ones
            until(lambda: sum(one.taken + one.left_out for one in ports(shop)) == 10)
    assert [one.context["n"] for one in taken(shop, "keyed")] == [str(n) for n in range(10)]


@pytest.mark.proves("a port sends on to a broker of Kafka's that doesn't know its producer any more")
def test_a_broker_that_dies_under_a_port_that_sends_gets_the_rest_in_order(shop):
    shop.define(
        sq.Queue("orders", sq.Standard(), group="customer", sequence="n", retry=sq.Retry(attempts=1000, delay=0.1))
    )
    with tansu() as broker:
        broker.create("out")
        port = KafkaPort(broker.servers, "out", headers={"n": "n"}, timeout=2.0)
        worker = sq.Worker(shop, "orders", port, workers=1)
        thread = threading.Thread(target=worker.run)
        thread.start()
        try:
            shop.publish([sq.Message(type="order", context={"customer": "c1", "n": n}) for n in range(1, 11)])
            until(lambda: not not_done(shop, "orders"))
            broker.kill()
            shop.publish([sq.Message(type="order", context={"customer": "c1", "n": n}) for n in range(11, 31)])
            until(lambda: faults(shop))
            broker.start()  # it doesn't know the producer any more: the port needs another one
            broker.create("out")
            until(lambda: not not_done(shop, "orders"))
        finally:
            worker.stop()
            thread.join()
            port.close()
        assert sent_to(broker, "out") == list(range(11, 31))


def sent_to(broker, topic):
    """The numbers in a topic, in order."""
    consumer = Consumer(
        {"bootstrap.servers": broker.servers, "group.id": "test", "enable.partition.eof": True, "log_level": 0}
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(4)])
    found, ends = [], 0
    while ends < 4:
        for one in consumer.consume(100, 1.0):
            if one.error() is None:
                found.append(int(dict(one.headers())["n"]))
            else:
                ends += 1
    consumer.close()
    return found


def test_a_cluster_that_is_away_is_awaited(shop):
    port = sq.ReceivePort(shop, KafkaSource("127.0.0.1:1", "orders"))
    with running(port):
        until(port.late)


@pytest.mark.telling
def test_a_port_out_sends_by_key_in_order(each, topic, shop):
    with shop.session() as tx:
        tx.publish([sq.Message(type="order", body=b"%d" % n, context={"customer": "c1", "n": n}) for n in (2, 1, 3)])
    port = KafkaPort(each.servers, topic, headers={"n": "n"})
    try:
        sq.Worker(shop, "orders", port, workers=1).run(until_idle=True)
    finally:
        port.close()
    consumer = Consumer({"bootstrap.servers": each.servers, "group.id": "test", "enable.auto.commit": False})
    numbers = consumer.list_topics(topic, 10).topics[topic].partitions
    consumer.assign([TopicPartition(topic, number, 0) for number in numbers])
    got = [one for one in consumer.consume(3, 10) if one.error() is None]
    consumer.close()
    assert [(one.key(), one.value()) for one in got] == [(b"c1", b"1"), (b"c1", b"2"), (b"c1", b"3")]
    headers = dict(got[0].headers())
    assert (headers["type"], headers["ordinal"], headers["n"], headers["queue"]) == (b"order", b"1", b"1", b"orders")
