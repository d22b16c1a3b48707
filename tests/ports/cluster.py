"""librdkafka's own mock cluster, in a process of its own, which can be killed and frozen; it keeps its messages in memory."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import Producer

_SERVE = """
import sys, time
from confluent_kafka import Producer
producer = Producer({"test.mock.num.brokers": 2, "log_level": 0})
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


@contextmanager
def mock_cluster() -> Iterator[Cluster]:
    """A cluster for the block."""
    cluster = Cluster()
    try:
        yield cluster
    finally:
        cluster.close()
