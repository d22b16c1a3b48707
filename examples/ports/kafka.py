"""Orders come from a topic of librdkafka's mock cluster, and leave for another one: ``python -m examples.ports.kafka``."""

from __future__ import annotations

import sys

from confluent_kafka import Consumer, Producer, TopicPartition
from examples.ports.passing import await_taken, send_on, taking

import seriatim as sq
from seriatim.endpoints.kafka import KafkaPort

CUSTOMERS, EACH = 3, 5


def main(box: sq.MessageBox) -> dict[str, list[str]]:
    """Return, by customer, the bodies that are in the other topic, in its order."""
    cluster = Producer({"test.mock.num.brokers": 1, "log_level": 0})
    servers = ",".join(f"{one.host}:{one.port}" for one in cluster.list_topics(timeout=10).brokers.values())
    for number in range(EACH):
        for customer in range(CUSTOMERS):
            cluster.produce("orders", key=f"c{customer}", value=f"{customer}-{number}")
    cluster.flush(30)
    box.define(
        sq.Queue("orders", sq.Fifo(), group="source_key"),
        sq.Subscription("orders", where="type = 'orders'", to="orders"),
    )
    port = sq.ReceivePort(box, f"kafka: {{servers: '{servers}', topic: orders}}")
    with taking(port):
        await_taken(box, CUSTOMERS * EACH)
    send_on(box, "orders", KafkaPort(servers, "shipped"))
    return _read(servers, "shipped")


def _read(servers: str, topic: str) -> dict[str, list[str]]:
    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": "example", "enable.auto.commit": False, "log_level": 0}
    )
    numbers = consumer.list_topics(topic, 10).topics[topic].partitions
    consumer.assign([TopicPartition(topic, number, 0) for number in numbers])
    found: dict[str, list[str]] = {}
    for message in consumer.consume(CUSTOMERS * EACH, 10):
        found.setdefault(message.key().decode(), []).append(message.value().decode())
    consumer.close()
    return found


if __name__ == "__main__":
    with sq.MessageBox.open(*sys.argv[1:]) as opened:
        for customer, bodies in sorted(main(opened).items()):
            print(customer, *bodies)
