"""The other sides of ports, for tests that kill: what sends and receives by each protocol, and goes on whatever is killed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pika
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.command import command, environment
from tests.free_port import free_port
from tests.ports.broker import Broker, rabbitmq
from tests.ports.cluster import Cluster, mock_cluster
from tests.ports.sender import Sender, adt

FROZEN_S = 3.0
#: A message: its group, its number there, and its place among all.
Row = tuple[str, int, int]


class Process:
    """A command that is started again whenever it was killed."""

    def __init__(self, words: Sequence[str], log: Path) -> None:
        self._words, self._log, self._process = words, log, None
        self.start()

    def start(self) -> None:
        with self._log.open("ab") as out:
            self._process = subprocess.Popen(
                command(*self._words), env=environment(), stdout=out, stderr=out, start_new_session=True
            )

    def signal(self, number: int) -> None:
        os.killpg(self._process.pid, number)

    def end(self, number: int) -> None:
        with suppress(ProcessLookupError):
            self.signal(number)
        self._process.wait()


class Mllp:
    """A sender and a receiver of HL7."""

    keeps_order = True

    def __init__(self) -> None:
        self.port = free_port()
        self.got: list[tuple[str, int]] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.receive_text = f"mllp: {{listen: '127.0.0.1:{self.port}', name: in, type: order, properties: {{customer: PID-3.1, n: ZNR-1}}}}"
        self.send_text = f"mllp: {{address: '127.0.0.1:{self._listener.getsockname()[1]}', timeout: 5s}}"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def send(self, rows: Sequence[Row]) -> None:
        """Send, one after another over one connection; again by a new one until it is acknowledged."""
        sender = None
        for group, number, place in rows:
            while True:
                with suppress(OSError):
                    sender = sender or Sender(f"127.0.0.1:{self.port}")
                    answer = sender.says(self.body(group, number, place))
                    if answer is not None and answer.code == "AA":
                        assert answer.control_id == f"m{place}"
                        break
                if sender is not None:
                    sender.close()
                    sender = None
                time.sleep(0.05)

    def body(self, group: str, number: int, place: int) -> bytes:
        return adt(f"m{place}", group) + f"ZNR|{number}\r".encode()

    def is_drained(self) -> bool:
        return True  # each was acknowledged

    def harm(self, chance: Any) -> None:
        """There is nothing between: the sender loses its connection."""
        for one in list(Sender.opened[-1:]):
            with suppress(OSError):
                one.socket.shutdown(socket.SHUT_RDWR)

    def received(self) -> list[tuple[str, int]]:
        return self.got

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        Sender.close_all()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._talk, args=[connection], daemon=True).start()

    def _talk(self, connection: socket.socket) -> None:
        rest = b""
        with connection, suppress(OSError):
            while data := connection.recv(65536):
                rest += data
                while b"\x1c\r" in rest:
                    frame, _, rest = rest.partition(b"\x1c\r")
                    lines = [line.split(b"|") for line in frame[1:].split(b"\r")]
                    self.got.append((lines[2][3].split(b"^")[0].decode(), int(lines[-2][1])))
                    answer = b"\x0bMSH|^~\\&|A|B|C|D|1||ACK|x|P|2.5\rMSA|AA|" + lines[0][9] + b"\r\x1c\r"
                    connection.sendall(answer)


class Rabbit:
    """A broker, a queue into the box and one out of it."""

    keeps_order = False

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        with broker.channel() as channel:
            for queue in ("in", "out"):
                channel.queue_declare(queue, durable=True)
        self.receive_text = f"rabbitmq: {{url: '{broker.url}', queue: in, name: in, type: order}}"
        self.send_text = f"rabbitmq: {{url: '{broker.url}', routing_key: out, headers: {{n: n}}}}"

    def send(self, rows: Sequence[Row]) -> None:
        """Publish with confirms; again until each is confirmed."""
        left = list(rows)
        while left:
            with suppress(pika.exceptions.AMQPError, OSError), self._broker.channel() as channel:
                while left:
                    group, number, place = left[0]
                    properties = pika.BasicProperties(
                        message_id=f"m{place}", app_id="test", delivery_mode=2, headers={"customer": group, "n": number}
                    )
                    channel.basic_publish("", "in", self.body(group, number, place), properties, mandatory=True)
                    del left[0]
            time.sleep(0.05)

    def body(self, group: str, number: int, place: int) -> bytes:
        return b"%d" % place

    def is_drained(self) -> bool:
        with self._broker.channel() as channel:
            return channel.queue_declare("in", passive=True).method.message_count == 0

    def harm(self, chance: Any) -> None:
        """Kill the broker and start it again, or freeze it."""
        if chance.random() < 0.5:
            self._broker.signal(signal.SIGSTOP)
            time.sleep(FROZEN_S)
            self._broker.signal(signal.SIGCONT)
        else:
            self._broker.signal(signal.SIGKILL)
            self._broker.wait()
            self._broker.start()

    def received(self) -> list[tuple[str, int]]:
        found = []
        with self._broker.channel() as channel:
            while (got := channel.basic_get("out", auto_ack=True))[0] is not None:
                found.append((got[1].headers["group"], got[1].headers["n"]))
        return found

    def close(self) -> None:
        """The broker is the block's."""


class Kafka:
    """A mock cluster, a topic into the box and one out of it."""

    keeps_order = True

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.receive_text = f"kafka: {{servers: '{cluster.servers}', topic: in, name: in, type: order}}"
        self.send_text = f"kafka: {{servers: '{cluster.servers}', topic: out, headers: {{n: n}}}}"

    def send(self, rows: Sequence[Row]) -> None:
        """Send by an idempotent producer."""
        producer = Producer({"bootstrap.servers": self._cluster.servers, "enable.idempotence": True, "log_level": 0})
        for group, number, place in rows:
            producer.produce(
                "in", key=group, value=self.body(group, number, place), headers={"customer": group, "n": str(number)}
            )
            producer.poll(0.002)
        assert producer.flush(120) == 0

    def body(self, group: str, number: int, place: int) -> bytes:
        return b"%d" % place

    def is_drained(self) -> bool:
        return True  # the count tells

    def harm(self, chance: Any) -> None:
        """Freeze the cluster: it has its messages in memory."""
        self._cluster.freeze()
        time.sleep(FROZEN_S)
        self._cluster.thaw()

    def received(self) -> list[tuple[str, int]]:
        settings = {
            "bootstrap.servers": self._cluster.servers,
            "group.id": "test",
            "enable.partition.eof": True,
            "log_level": 0,
        }
        consumer = Consumer(settings)
        numbers = consumer.list_topics("out", 30).topics["out"].partitions
        consumer.assign([TopicPartition("out", number, 0) for number in numbers])
        found, ends = [], 0
        while ends < len(numbers):
            for one in consumer.consume(500, 1.0):
                if one.error() is not None:
                    ends += 1
                else:
                    found.append((one.key().decode(), int(dict(one.headers())["n"])))
        consumer.close()
        return found

    def close(self) -> None:
        """The cluster is the block's."""


@contextmanager
def side(kind: str, folder: Path) -> Iterator[Mllp | Rabbit | Kafka]:
    """The other side of a port, for the block."""
    found: Mllp | Rabbit | Kafka
    match kind:
        case "mllp":
            found = Mllp()
            try:
                yield found
            finally:
                found.close()
        case "rabbitmq":
            (folder / "rabbitmq").mkdir()
            with rabbitmq(folder / "rabbitmq") as broker:
                yield Rabbit(broker)
        case _:
            with mock_cluster() as cluster:
                yield Kafka(cluster)
