"""The brokers that tests of ports share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.ports.broker import Broker, rabbitmq


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """The one RabbitMQ of this worker."""
    with rabbitmq(tmp_path_factory.mktemp("rabbitmq")) as found:
        yield found
