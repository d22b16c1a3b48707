"""Orders come from a queue of RabbitMQ in the wrong order, and leave in the right one: ``python -m examples.ports.rabbitmq URL``."""

from __future__ import annotations

import sys

import pika
from examples.ports.passing import await_taken, send_on, taking

import seriatim as sq
from seriatim.endpoints.rabbitmq import RabbitmqPort

CUSTOMERS, EACH = 3, 5


def main(box: sq.MessageBox, url: str) -> dict[str, list[int]]:
    """Return, by customer, the numbers that are in the other queue, in its order."""
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        for queue in ("example-orders", "example-shipped"):
            channel.queue_declare(queue)
            channel.queue_purge(queue)
        for number in reversed(range(1, EACH + 1)):
            for customer in range(CUSTOMERS):
                properties = pika.BasicProperties(
                    type="order", app_id="shop", message_id=f"{customer}-{number}",
                    headers={"customer": f"c{customer}", "number": number},
                )  # fmt: skip
                channel.basic_publish("", "example-orders", b"{}", properties)
    box.define(
        sq.MessageType("order", properties={"customer": "string", "number": "long"}),
        sq.Queue("orders", sq.Standard(), group="customer", sequence="number"),
        sq.Subscription("orders", where="type = 'order'", to="orders"),
    )
    port = sq.ReceivePort(box, f"rabbitmq: {{url: '{url}', queue: example-orders}}")
    with taking(port):
        await_taken(box, CUSTOMERS * EACH)
    send_on(box, "orders", RabbitmqPort(url, routing_key="example-shipped", headers={"number": "number"}))
    found: dict[str, list[int]] = {}
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        for _ in range(CUSTOMERS * EACH):
            _, properties, _ = channel.basic_get("example-shipped", auto_ack=True)
            found.setdefault(properties.headers["group"], []).append(properties.headers["number"])
    return found


if __name__ == "__main__":
    broker, *where = sys.argv[1:]
    with sq.MessageBox.open(*where) as opened:
        for customer, numbers in sorted(main(opened, broker).items()):
            print(customer, *numbers)
