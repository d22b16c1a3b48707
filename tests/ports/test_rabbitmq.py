"""RabbitMQ in and out of the box, with Debian's own broker."""

from __future__ import annotations

import signal
import uuid
from decimal import Decimal

import pika
import pytest

import seriatim as sq
from seriatim.endpoints.rabbitmq import RabbitmqPort
from seriatim.operations.faults import faults
from seriatim.operations.ports import ports
from seriatim.runtime.ports.rabbitmq import RabbitmqSource
from tests.databases import box_with
from tests.ports.broker import rabbitmq
from tests.ports.running import running, taken, until

pytestmark = pytest.mark.dear


def prepare(box):
    box.define(
        sq.MessageType("order", properties={"customer": "string", "n": "long"}),
        sq.Queue("orders", policy=sq.Standard(), group="customer", sequence="n"),
        sq.Queue("plain", policy=sq.Fifo(), group="source_partition"),
        sq.Subscription("orders", where="type = 'order'", to="orders"),
        sq.Subscription("plain", where="type = 'plain'", to="plain"),
    )


shop = box_with(prepare)


@pytest.fixture(params=["classic", "quorum"])
def queue(broker, request):
    name = f"q{uuid.uuid4().hex[:8]}"
    with broker.channel() as channel:
        channel.queue_declare(name, durable=True, arguments={"x-queue-type": request.param})
    return name


def send(broker, queue, numbers, *, customer="c1", kind="order", ids=True, body=b"{}"):
    with broker.channel() as channel:
        for n in numbers:
            properties = pika.BasicProperties(
                type=kind, app_id="shop", message_id=f"{customer}-{n}" if ids else None, delivery_mode=2,
                headers={"customer": customer, "n": n, "x-else": 1},
            )  # fmt: skip
            channel.basic_publish("", queue, body, properties, mandatory=True)


def left_in(broker, queue):
    with broker.channel() as channel:
        return channel.queue_declare(queue, passive=True).method.message_count


def test_messages_come_in_and_are_acknowledged(broker, queue, shop):
    with running(sq.ReceivePort(shop, RabbitmqSource(broker.url, queue))):
        send(broker, queue, (2, 1, 3))
        until(lambda: ports(shop) and ports(shop)[0].taken == 3)
    got = taken(shop, "orders")
    assert [message.sequence for message in got] == [1, 2, 3]
    assert left_in(broker, queue) == 0
    context = got[0].context
    assert (context["source_partition"], context["source_id"], context["redelivered"]) == (queue, "c1-1", False)
    assert "x_else" not in context
    assert got[0].ticket.location == f"rabbitmq-{queue}"


def test_an_id_twice_with_another_body_is_marked(broker, queue, shop):
    for body in (b"1", b"1", b"2"):
        send(broker, queue, (1,), kind="plain", body=body)
    with running(sq.ReceivePort(shop, RabbitmqSource(broker.url, queue))):
        until(lambda: left_in(broker, queue) == 0 and ports(shop) and ports(shop)[0].taken == 2)
    got = taken(shop, "plain")
    assert [(message.body, message.context.get("id_reused")) for message in got] == [(b"1", None), (b"2", True)]


def test_what_was_not_acknowledged_comes_again_and_is_left_out(broker, queue, shop):
    send(broker, queue, range(1, 6))
    source = RabbitmqSource(broker.url, queue)
    source.begin(queue, None)
    first = until(lambda: source.take(10, 0.1))
    with shop.session() as tx:  # committed, and killed before it was acknowledged
        tx.publish([one.message for one in first])
    source.close()
    with running(sq.ReceivePort(shop, RabbitmqSource(broker.url, queue))):
        until(
            lambda: left_in(broker, queue) == 0 and ports(shop) and ports(shop)[0].taken + ports(shop)[0].left_out == 5
        )
    assert [message.sequence for message in taken(shop, "orders")] == [1, 2, 3, 4, 5]


def test_a_message_without_an_id_is_told_of(broker, queue, shop, caplog):
    send(broker, queue, (1,), kind="plain", ids=False)
    with running(sq.ReceivePort(shop, RabbitmqSource(broker.url, queue))):
        until(lambda: ports(shop) and ports(shop)[0].taken == 1)
    assert "at least once" in caplog.text
    assert taken(shop, "plain")[0].context["redelivered"] is False


def test_poison_is_kept_with_its_reason_and_holds_up_nobody(broker, queue, shop):
    with broker.channel() as channel:
        for headers in ({"customer": "a\0b"}, {"n": Decimal("1.5")}, {"customer": "c1", "n": 1}):
            channel.basic_publish("", queue, b"", pika.BasicProperties(type="order", headers=headers), mandatory=True)
        channel.basic_publish("", queue, b"", pika.BasicProperties(type="a\0b"), mandatory=True)
    with running(sq.ReceivePort(shop, RabbitmqSource(broker.url, queue))):
        until(lambda: ports(shop) and ports(shop)[0].taken == 4)
    assert left_in(broker, queue) == 0
    assert [message.sequence for message in taken(shop, "orders")] == [1]
    assert ports(shop)[0].refused == 2


def test_a_full_queue_stops_consuming_until_there_is_room(broker, queue, shop):
    shop.define(sq.Queue("plain", policy=sq.Fifo(), group="source_partition", max_messages=2))
    send(broker, queue, range(10), kind="plain")
    with running(sq.ReceivePort(shop, RabbitmqSource(broker.url, queue, prefetch=3))):
        got = []
        until(lambda: (ports(shop) and ports(shop)[0].problem) or (len(got) and True))
        while len(got) < 10:
            found = until(lambda: taken(shop, "plain"))
            assert len(found) <= 2
            got += found
        assert [message.context["source_id"] for message in got] == [f"c1-{n}" for n in range(10)]
        until(lambda: ports(shop)[0].problem is None)


def test_what_is_full_for_long_goes_back_to_the_broker(broker, queue, shop, monkeypatch):
    monkeypatch.setattr("seriatim.runtime.ports.receive_port._HELD_S", 0.3)
    shop.define(sq.Queue("plain", policy=sq.Fifo(), group="source_partition", max_messages=1))
    send(broker, queue, range(4), kind="plain")
    with running(sq.ReceivePort(shop, RabbitmqSource(broker.url, queue))):
        until(
            lambda: ports(shop) and left_in(broker, queue) == 3
        )  # none is unacknowledged: the broker counts them as ready
        got = []
        while len(got) < 4:
            got += until(lambda: taken(shop, "plain"))
    assert sorted(message.context["source_id"] for message in got) == [f"c1-{n}" for n in range(4)]


def test_a_body_of_a_hundred_megabytes(broker, shop):
    queue, body = f"q{uuid.uuid4().hex[:8]}", b"x" * 100_000_000
    with broker.channel() as channel:
        channel.queue_declare(queue)
    send(broker, queue, (1,), kind="plain", body=body)
    with running(sq.ReceivePort(shop, RabbitmqSource(broker.url, queue))):
        until(lambda: ports(shop) and ports(shop)[0].taken == 1)
    assert taken(shop, "plain")[0].body == body


def test_what_is_read_ahead_has_a_bound(broker, queue, shop, monkeypatch):
    monkeypatch.setattr("seriatim.runtime.ports.rabbitmq._MOST_IN_MEMORY", 1000)
    send(broker, queue, range(30), kind="plain", body=b"x" * 600)
    with running(sq.ReceivePort(shop, RabbitmqSource(broker.url, queue))):
        until(lambda: ports(shop) and ports(shop)[0].taken == 30)
    assert [message.context["source_id"] for message in taken(shop, "plain")] == [f"c1-{n}" for n in range(30)]


@pytest.mark.proves("a port reads on when a killed RabbitMQ is back, and says meanwhile that it is away")
def test_a_broker_that_dies_and_comes_back(shop, tmp_path):
    with rabbitmq(tmp_path) as broker:
        with broker.channel() as channel:
            channel.queue_declare("orders", durable=True)
        send(broker, "orders", (1,))
        port = sq.ReceivePort(shop, RabbitmqSource(broker.url, "orders"))
        with running(port):
            until(lambda: ports(shop) and ports(shop)[0].taken == 1)
            broker.signal(signal.SIGKILL)
            broker.wait()
            until(port.late)
            broker.start()
            send(broker, "orders", (2,))
            until(lambda: ports(shop)[0].taken == 2)
            until(lambda: not port.late())
    assert [message.sequence for message in taken(shop, "orders")] == [1, 2]


def test_a_queue_that_is_not_there_is_told_and_awaited(broker, shop):
    name = f"q{uuid.uuid4().hex[:8]}"
    port = sq.ReceivePort(shop, RabbitmqSource(broker.url, name))
    with running(port):
        until(lambda: any("no such queue" in text for text in port.late()))
        with broker.channel() as channel:
            channel.queue_declare(name, durable=True)
        send(broker, name, (1,))
        until(lambda: any(one.taken for one in ports(shop)))


@pytest.mark.telling
def test_a_port_out_is_confirmed_in_order_with_ids(broker, queue, shop):
    shop.define(sq.Queue("out", policy=sq.Standard(), group="customer", sequence="n"))
    with shop.session() as tx:
        tx.publish(
            [
                sq.Message(type="order", body=b"%d" % n, context={"customer": "c1", "n": n, "to": "out"})
                for n in (2, 1, 3)
            ]
        )
    port = RabbitmqPort(broker.url, routing_key=queue, headers={"n": "n"})
    try:
        sq.Worker(shop, "out", port, workers=1).run(until_idle=True)
    finally:
        port.close()
    with broker.channel() as channel:
        got = [channel.basic_get(queue, auto_ack=True) for _ in range(3)]
    assert [body for _, _, body in got] == [b"1", b"2", b"3"]
    properties = got[0][1]
    assert (properties.type, properties.app_id, properties.delivery_mode) == ("order", "seriatim", 2)
    assert properties.message_id
    assert {name: properties.headers[name] for name in ("group", "queue", "ordinal", "n")} == {
        "group": "c1", "queue": "out", "ordinal": 1, "n": 1,
    }  # fmt: skip


def test_a_message_that_no_queue_gets_fails(broker, shop):
    shop.define(sq.Queue("out", policy=sq.Fifo(), group="customer"))
    with shop.session() as tx:
        tx.publish(sq.Message(type="order", context={"customer": "c1", "n": 1, "to": "out"}))
    port = RabbitmqPort(broker.url, routing_key="nobody")
    try:
        sq.Worker(shop, "out", port, workers=1).run(until_idle=True)
    finally:
        port.close()
    assert "no queue is bound" in faults(shop)[0].error
