"""A RabbitMQ of the tests' own: on loopback, with a folder and an Erlang port mapper of its own; it can be killed, frozen and started again."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pika
import pytest

from tests.free_port import free_port

SCRIPT = Path(__file__).parents[2] / "scripts" / "rabbitmq"
START_S = 120.0


class Broker:
    """One node."""

    def __init__(self, program: str, folder: Path) -> None:
        self._program, self._folder = program, folder
        self.port, self._dist, self._mapper_port = free_port(), free_port(), free_port()
        self.url = f"amqp://guest:guest@127.0.0.1:{self.port}/%2F"
        self._process: subprocess.Popen[bytes] | None = None
        (folder / "plugins").write_text("[].")
        self._environment = {
            "PATH": os.environ["PATH"], "HOME": str(folder), "LANG": "C.UTF-8",
            "ERL_EPMD_ADDRESS": "127.0.0.1", "ERL_EPMD_PORT": str(self._mapper_port),
            "RABBITMQ_NODENAME": f"seriatim{self.port}@localhost", "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port), "RABBITMQ_DIST_PORT": str(self._dist),
            "RABBITMQ_MNESIA_BASE": str(folder / "data"), "RABBITMQ_LOG_BASE": str(folder / "log"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"), "RABBITMQ_CONF_ENV_FILE": str(folder / "none"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 1:1 +sbwt none -kernel inet_dist_use_interface {127,0,0,1}",
        }  # fmt: skip
        self._mapper = subprocess.Popen(
            ["epmd", "-port", str(self._mapper_port), "-address", "127.0.0.1"], env=self._environment
        )

    def start(self) -> None:
        """Start it, and wait until it answers."""
        with (self._folder / "out").open("ab") as out:
            self._process = subprocess.Popen(
                [self._program],
                env=self._environment,
                stdout=out,
                stderr=out,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        deadline = time.monotonic() + START_S
        while True:
            with suppress(pika.exceptions.AMQPError, OSError):
                pika.BlockingConnection(pika.URLParameters(self.url)).close()
                return
            assert self._process.poll() is None, (self._folder / "out").read_text()
            assert time.monotonic() < deadline, "RabbitMQ doesn't start"
            time.sleep(0.2)

    def signal(self, number: int) -> None:
        """Send a signal to it."""
        assert self._process is not None
        os.killpg(self._process.pid, number)

    def wait(self) -> None:
        """Wait for its end."""
        if self._process is not None:
            self._process.wait()
            self._process = None

    def close(self) -> None:
        """End it, and the port mapper."""
        if self._process is not None:
            self.signal(signal.SIGCONT)
            self.signal(signal.SIGTERM)
            self.wait()
        self._mapper.terminate()
        self._mapper.wait()

    @contextmanager
    def channel(self) -> Iterator[Any]:
        """A channel whose publishes are confirmed."""
        connection = pika.BlockingConnection(pika.URLParameters(self.url))
        try:
            channel = connection.channel()
            channel.confirm_delivery()
            yield channel
        finally:
            if connection.is_open:
                connection.close()


@contextmanager
def rabbitmq(folder: Path) -> Iterator[Broker]:
    """A broker; tests are skipped where there is none."""
    found = subprocess.run([SCRIPT], capture_output=True, text=True, check=False)
    if found.returncode == 3:
        pytest.skip(found.stderr.strip().splitlines()[-1])
    broker = Broker(found.stdout.strip().splitlines()[-1], folder)
    try:
        broker.start()
        yield broker
    finally:
        broker.close()
