"""Arguments that no port takes, in and out: each is told as what it is."""

import inspect
from contextlib import suppress

import pytest

import seriatim as sq
from seriatim.endpoints import FilePort, HttpPort, MllpPort, QueuePort, TablePort
from seriatim.endpoints.kafka import KafkaPort
from seriatim.endpoints.rabbitmq import RabbitmqPort
from seriatim.runtime.ports.kafka import KafkaSource
from seriatim.runtime.ports.mllp import MllpSource
from seriatim.runtime.ports.rabbitmq import RabbitmqSource

PORTS = {
    FilePort: {"folder": "."},
    HttpPort: {"url": "http://host/x", "response": "answer"},
    KafkaPort: {"servers": "host:9092", "topic": "t"},
    KafkaSource: {"servers": "host:9092", "topic": "t"},
    MllpPort: {"address": "host:2575"},
    MllpSource: {"listen": "127.0.0.1:0"},
    QueuePort: {"queue": "q"},
    RabbitmqPort: {"url": "amqp://host", "routing_key": "q"},
    RabbitmqSource: {"url": "amqp://host", "queue": "q"},
    TablePort: {"table": "t", "columns": {"a": "x"}},
}
ODD = (True, 5, 10**30, float("nan"), "", "a\0b", "\ud800", "x" * 5000, b"x", [], ["x"], [5], {}, {"x": []}, {5: 6})


@pytest.mark.parametrize(
    ("port", "name"), [(port, name) for port in PORTS for name in inspect.signature(port).parameters]
)
def test_what_is_of_another_kind_is_refused(port, name):
    with pytest.raises(sq.UsageError):
        port(**PORTS[port] | {name: object()})
    for odd in ODD:
        with suppress(sq.SeriatimError):
            port(**PORTS[port] | {name: odd})
