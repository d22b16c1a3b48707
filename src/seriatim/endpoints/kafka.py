"""The Kafka port: sends each message to a topic, at least once, with the group as its key, and waits until it is stored."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from seriatim.endpoints.delivery import Delivered, Transaction, given_messages, idempotency_key, in_hand, seconds_of
from seriatim.errors import Business, Transient, UsageError, shown
from seriatim.extras import need
from seriatim.pipeline.text.typed import typed
from seriatim.pipeline.types.message import Property, Received

need("kafka")

from confluent_kafka import KafkaError, KafkaException, Producer  # noqa: E402 -- the extra was asked for

#: After that the client has to have said what became of a message, seconds beyond its own time-out.
_MARGIN_S = 5.0
#: Settings that the ports need as they set them.
_OWN = (
    "bootstrap.servers",
    "client.id",
    "group.id",
    "enable.auto",
    "enable.idempotence",
    "auto.offset",
    "partition.assignment",
    "delivery.",
)
_NEVER = frozenset({KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_RECORD, KafkaError._INVALID_ARG})  # noqa: SLF001 -- so named there
#: The code of all errors that follow a fatal one, such as of a broker that doesn't know the producer any more.
_FATAL = KafkaError._FATAL  # noqa: SLF001 -- so named there


class KafkaPort:
    """A handler that sends to a topic. Threads share one, and its idempotent producer. The messages of a group have one key, so they come
    into one partition, in order: each is stored before the next one is sent.

    Args:
        servers: ``HOST:PORT``, several with commas between them.
        topic: the topic.
        headers: further headers, name → property. Each message has the headers ``message_id``, ``type``, ``content_type``, ``queue``,
            ``incarnation``, ``ordinal`` and ``idempotency_key``.
        timeout: seconds for a message, tries of the client included.
        options: further settings of librdkafka, such as ``security.protocol``.
    """

    @typed
    def __init__(
        self,
        servers: str,
        topic: str,
        *,
        headers: Mapping[str, str] | None = None,
        timeout: float | str = 30.0,
        options: Mapping[str, str] | None = None,
    ) -> None:
        self._timeout = seconds_of(timeout, 1.0)
        self._topic, self._headers = topic, dict(headers or {})
        self._settings = checked_options(servers, topic, options) | {
            "enable.idempotence": True, "linger.ms": 0, "delivery.timeout.ms": round(self._timeout * 1000),
        }  # fmt: skip
        #: The brokers, for errors.
        self.place = f"{servers}, topic {topic!r}"
        self._lock = threading.Lock()
        self._producer: Any = None

    def __call__(self, received: Received | Delivered, tx: Transaction) -> None:
        """Send the given messages, one after another; each is stored before the next one."""
        delivered = in_hand(tx)
        for message in given_messages(received):
            self._send(delivered, message)

    def close(self) -> None:
        with self._lock:
            producer, self._producer = self._producer, None
        if producer is not None:
            producer.flush(1.0)

    def _send(self, delivered: Delivered, message: Received) -> None:
        became: list[Any] = []
        producer = self._opened()
        until = time.monotonic() + self._timeout + _MARGIN_S
        try:
            producer.produce(
                self._topic, value=message.body, key=None if delivered.group is None else delivered.group.encode(),
                headers=self._headers_of(delivered, message), on_delivery=lambda error, _: became.append(error),
            )  # fmt: skip
            while not became and time.monotonic() < until:
                producer.poll(0.05)
        except (KafkaException, BufferError, ValueError, TypeError) as error:
            raise self._failed(
                producer, error.args[0] if isinstance(error, KafkaException) else None, str(error)
            ) from None
        if not became:
            raise self._failed(producer, None, f"nobody says what became of the message within {self._timeout:g} s")
        if became[0] is not None:
            raise self._failed(producer, became[0], reason_of(became[0]))

    def _failed(self, producer: Any, error: Any, why: str) -> Exception:
        if error is not None and error.code() in _NEVER:
            return Business(why, where=self.place)
        with self._lock:  # what another thread has under way it waits for there
            if self._producer is producer and error is not None and (error.fatal() or error.code() == _FATAL):
                self._producer = None
        return Transient(why, where=self.place)

    def _opened(self) -> Any:
        with self._lock:
            if self._producer is None:
                self._producer = Producer(self._settings)
            return self._producer

    def _headers_of(self, delivered: Delivered, message: Received) -> list[tuple[str, bytes]]:
        own: dict[str, Property] = {
            "message_id": message.message_id, "type": message.type, "content_type": message.content_type, "queue": delivered.queue,
            "incarnation": delivered.incarnation, "ordinal": message.ordinal, "correlation_id": message.context.get("correlation_id"),
            **{name: message.context.get(property_) for name, property_ in self._headers.items()},
        }  # fmt: skip
        sent = [f"{name}: {own[name]}" for name in self._headers]
        own["idempotency_key"] = idempotency_key(delivered, message, sent)
        return [(name, _header(value)) for name, value in own.items() if value is not None]


def checked_options(servers: str, topic: str, options: Mapping[str, str] | None) -> dict[str, Any]:
    """The settings of a client, with what all clients of ours have."""
    for what, value in (("servers", servers), ("topic", topic)):
        if not value:
            raise UsageError(
                f"{what} can't be {shown(value)}", remedy="such as servers: kafka.example:9092, topic: orders"
            )
    for name in options or {}:
        if name.startswith(_OWN):
            raise UsageError(f"the port sets {name} itself", where="options", remedy="leave it out")
    return {"log_level": 0, **(options or {}), "bootstrap.servers": servers, "client.id": "seriatim"}


def reason_of(error: Any) -> str:
    """Why Kafka can't be used, in a line."""
    return f"{error.name()}: {error.str()}"[:300]


def _header(value: Property) -> bytes:
    match value:
        case bool():
            return str(value).lower().encode()
        case datetime():
            return value.isoformat().encode()
    return str(value).encode()
