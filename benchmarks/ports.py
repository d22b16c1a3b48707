"""Ports in beside publishing in batches: the messages are in the source before. Senders of HL7 are in a process of their own: many that wait for
each acknowledgement, and a few that send on before they have it.

RabbitMQ is measured where scripts/rabbitmq finds it; Kafka is librdkafka's mock cluster, in a process of its own. fsync is on.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import click
import pika

from benchmarks.measure import Claim
from seriatim import Fifo, Message, MessageBox, MessageType, Queue, ReceivePort, Subscription
from seriatim.box.server.embedded import EmbeddedServer
from seriatim.operations.ports import ports
from seriatim.runtime.ports.kafka import KafkaSource
from seriatim.runtime.ports.mllp import MllpSource
from seriatim.runtime.ports.rabbitmq import RabbitmqSource
from seriatim.runtime.ports.source import Source
from tests.ports.broker import SCRIPT, Broker
from tests.ports.cluster import mock_cluster

__all__ = ["porting"]

_BODY = os.urandom(500).hex().encode()
_MESSAGES = int(os.environ.get("SERIATIM_BENCH_PORTS", "20000"))
_BATCH, _GROUPS, _ROUNDS = 500, 300, 3
#: Senders of HL7, and how many messages each has under way.
_WAITING, _GOING_ON = (32, 1), (4, 250)


def porting(root: Path, peers: bool) -> Iterator[Claim]:
    """Two minutes."""
    del peers
    server = EmbeddedServer(root / "postgres-ports")
    try:
        with MessageBox.open(server.dsn) as box:
            box.define(
                MessageType("order", properties={"customer": "string"}),
                Queue("orders", Fifo(), group="customer"),
                Subscription("orders", where="type = 'order'", to="orders"),
            )
            for kind, measure, aim in (
                ("kafka", _kafka, 0.5),
                ("rabbitmq", _rabbitmq, 0.5),
                ("mllp, senders that go on", partial(_mllp, of=_GOING_ON), 0.5),
                ("mllp, senders that wait", partial(_mllp, of=_WAITING), None),
            ):
                ratios, rates = [], []
                for nth in range(_ROUNDS):
                    published = _published(box, f"{kind}{nth}")
                    taken = measure(box, root, nth)
                    if taken is not None:
                        ratios.append(published / taken)
                        rates.append(_MESSAGES / taken)
                if ratios:
                    middle = sorted(ratios)[len(ratios) // 2]
                    what = f"in through {kind} ÷ box.publish in batches of {_BATCH}"
                    yield Claim(what, middle, aim, amount=sorted(rates)[len(rates) // 2])
    finally:
        server.close()


def _published(box: MessageBox, mark: str) -> float:
    """The seconds in which as many messages are published by an application."""
    begun = time.perf_counter()
    for first in range(0, _MESSAGES, _BATCH):
        box.publish([
            Message(type="order", body=_BODY, context={"customer": f"c{nth % _GROUPS}"}, message_id=f"{mark}-{nth}")
            for nth in range(first, first + _BATCH)
        ])  # fmt: skip
    return time.perf_counter() - begun


def _taken(box: MessageBox, source: Source, send: Callable[[], object] | None = None) -> float:
    """The seconds in which a port takes all of them in, by those after its first commit: to connect is not what is measured."""
    port = ReceivePort(box, source, batch=_BATCH)
    thread = threading.Thread(target=port.run)
    sending = threading.Thread(target=send or (lambda: None))
    for one in (thread, sending):
        one.start()
    while not (first := _count(box, port)):
        time.sleep(0.005)
    begun = time.perf_counter()
    while _count(box, port) < _MESSAGES:
        time.sleep(0.02)
    seconds = time.perf_counter() - begun
    sending.join()
    port.stop()
    thread.join()
    return seconds * _MESSAGES / (_MESSAGES - first)


def _count(box: MessageBox, port: ReceivePort) -> int:
    return sum(one.taken for one in ports(box) if one.port == port.name)


def _kafka(box: MessageBox, _: Path, nth: int) -> float:
    with mock_cluster() as cluster:
        cluster.send(
            "orders",
            [(f"c{n % _GROUPS}", _BODY, {"customer": f"c{n % _GROUPS}", "type": "order"}) for n in range(_MESSAGES)],
        )
        return _taken(box, KafkaSource(cluster.servers, "orders", name=f"kafka{nth}"))


def _rabbitmq(box: MessageBox, _: Path, nth: int) -> float | None:
    found = subprocess.run([SCRIPT], capture_output=True, text=True, check=False)
    if found.returncode:
        click.echo("RabbitMQ isn't here, and isn't measured", err=True)
        return None
    with tempfile.TemporaryDirectory() as folder:
        broker = Broker(found.stdout.strip(), Path(folder))
        try:
            broker.start()
            with broker.channel() as channel:
                channel.queue_declare("orders", durable=True)
            connection = pika.BlockingConnection(pika.URLParameters(broker.url))
            channel = connection.channel()  # without confirms: what the sender takes isn't measured
            for n in range(_MESSAGES):
                properties = pika.BasicProperties(
                    type="order",
                    message_id=f"{nth}-{n}",
                    app_id="bench",
                    headers={"customer": f"c{n % _GROUPS}"},
                    delivery_mode=2,
                )
                channel.basic_publish("", "orders", _BODY, properties)
            connection.close()
            return _taken(box, RabbitmqSource(broker.url, "orders", name=f"rabbitmq{nth}"))
        finally:
            broker.close()


def _mllp(box: MessageBox, _: Path, nth: int, *, of: tuple[int, int]) -> float:
    source = MllpSource("127.0.0.1:0", name=f"mllp{nth}-{of[0]}", type="order", properties={"customer": "PID-3"})

    def send() -> None:
        while source.address is None:
            time.sleep(0.01)
        words = ["-m", "benchmarks.ports", source.address, nth, _MESSAGES, *of]
        subprocess.run([sys.executable, *map(str, words)], check=True)

    return _taken(box, source, send)


async def _senders(address: str, nth: int, messages: int, senders: int, ahead: int) -> None:
    await asyncio.gather(
        *(_sender(address, f"{nth}-{senders}", range(one, messages, senders), ahead) for one in range(senders))
    )


async def _sender(address: str, mark: str, numbers: range, ahead: int) -> None:
    """Send messages over one connection, at most `ahead` before the acknowledgement of the first of them."""
    host, port = address.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    left = asyncio.Semaphore(ahead)

    async def answered() -> None:
        for _ in numbers:
            assert b"MSA|AA|" in await reader.readuntil(b"\x1c\r")
            left.release()

    answering = asyncio.create_task(answered())
    for n in numbers:
        await left.acquire()
        head = f"MSH|^~\\&|S{numbers.start}|A|B|C|1||ORD|{mark}-{n}|P|2.5\rPID|||c{n % _GROUPS}\rOBX|1||||".encode()
        writer.write(b"\x0b" + head + _BODY + b"\r\x1c\r")
        await writer.drain()
    await answering
    writer.close()


if __name__ == "__main__":
    asyncio.run(_senders(sys.argv[1], *map(int, sys.argv[2:])))
