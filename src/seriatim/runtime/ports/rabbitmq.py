"""The source RabbitMQ: takes the messages of a queue, and acknowledges them when they are committed."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from decimal import Decimal
from typing import Any

from seriatim.errors import UsageError, shown
from seriatim.extras import need
from seriatim.pipeline.text.event_log import LOG
from seriatim.pipeline.types.message import Property
from seriatim.pipeline.types.properties import OF_MESSAGES, checked_property
from seriatim.runtime.ports.source import Outcome, Promise, Source, SourceAway, Taken, id_of, made, property_names

need("rabbitmq")

import pika  # noqa: E402 -- the extra was asked for
from pika.exceptions import AMQPError, ChannelClosedByBroker  # noqa: E402

from seriatim.endpoints.rabbitmq import parameters_of, reason_of  # noqa: E402

__all__ = ["RabbitmqSource", "headers_of"]

#: RabbitMQ 4 drops a message of a quorum queue after 20 deliveries; a port that gets one so often is told of.
_OFTEN = 10
_COUNT = "x-delivery-count"
#: How long more messages are waited for, so that they share a transaction, seconds.
_MORE_S = 0.005


class RabbitmqSource(Source):
    """Takes from a queue.

    Args:
        url: ``amqp://USER:PASSWORD@HOST:PORT/VHOST``.
        queue: the queue, which exists.
        name: the name of the port; default: ``rabbitmq-`` and the queue.
        type: the type of the messages; default: their AMQP property ``type``, else the routing key, else the queue's name.
        properties: name → header; default: all headers that can be properties.
        prefetch: the most messages that the broker sends before one is acknowledged.
    """

    kind = "rabbitmq"
    promise = Promise(
        order="a queue with one consumer gives its messages in order, until one comes again",
        keeps_order_over_a_crash=False,
        advice="what isn't acknowledged comes again behind later messages (quorum queues), so let the sender number its messages, "
        "and take Standard on its number",
        is_once=False,
    )

    def __init__(
        self,
        url: str,
        queue: str,
        *,
        name: str | None = None,
        type: str | None = None,  # noqa: A002 -- as the text has it
        properties: dict[str, str] | None = None,
        prefetch: int = 1000,
    ) -> None:
        self._parameters = parameters_of(url)
        if not isinstance(queue, str) or not queue:
            raise UsageError(f"queue can't be {shown(queue)}", remedy="the name of a queue of RabbitMQ")
        if isinstance(prefetch, bool) or not isinstance(prefetch, int) or not 1 <= prefetch <= 65_535:
            raise UsageError(f"prefetch can't be {shown(prefetch)}", remedy="a number from 1 to 65,535")
        self.name = name or f"rabbitmq-{queue}"[:128]
        self.properties = None if properties is None else property_names(properties, "header")
        self._queue, self._type, self._prefetch = queue, type, prefetch
        self._connection: pika.BlockingConnection | None = None
        self._channel: Any = None
        self._consumer: str | None = None
        self._arrived: deque[Taken] = deque()
        self._told: set[str] = set()

    def partitions(self) -> Sequence[str]:
        """It has one, the queue."""
        return (self._queue,)

    def begin(self, partition: str, position: Any) -> None:
        """Connect and consume."""
        with self._reached():
            self._connection = pika.BlockingConnection(self._parameters)
            self._open()

    def end(self, partition: str) -> None:
        """Close the connection: the broker keeps what isn't acknowledged."""
        self.close()

    def close(self) -> None:
        """Close the connection."""
        connection, self._connection, self._channel, self._consumer = self._connection, None, None, None
        self._arrived.clear()
        if connection is not None:
            with suppress(AMQPError, OSError):
                connection.close()

    def take(self, most: int, wait_s: float) -> list[Taken]:
        """Take what has come."""
        if not self._arrived:
            self._work(wait_s)
        while 0 < len(self._arrived) < most:
            before = len(self._arrived)
            self._work(_MORE_S)
            if len(self._arrived) == before:
                break
        return [self._arrived.popleft() for _ in range(min(most, len(self._arrived)))]

    def acknowledge(self, outcomes: Sequence[Outcome]) -> None:
        """Acknowledge messages, and all before them."""
        with self._reached():
            self._channel.basic_ack(outcomes[-1].taken.handle, multiple=True)

    def go_on(self, partition: str) -> None:
        """Consume again."""
        if self._connection is not None and self._consumer is None:
            with self._reached():
                self._open()

    def give_back(self) -> bool:
        """Stop consuming, and give everything back that isn't acknowledged. Before that a full queue is waited for while the broker sends
        no more than `prefetch`: what goes back to a quorum queue loses its place.
        """
        with self._reached():
            self._channel.close()
        self._channel, self._consumer = None, None
        self._arrived.clear()
        return True

    def pause(self, seconds: float) -> None:
        """Wait, and answer heartbeats."""
        self._work(seconds)

    def _open(self) -> None:
        assert self._connection is not None  # noqa: S101 -- it has begun
        if self._channel is None:
            self._channel = self._connection.channel()
            self._channel.queue_declare(self._queue, passive=True)
            self._channel.basic_qos(prefetch_count=self._prefetch)
        self._consumer = self._channel.basic_consume(self._queue, self._came)

    def _work(self, seconds: float) -> None:
        with self._reached():
            if self._connection is None:
                raise SourceAway("the connection is lost", where=self._place)
            self._connection.process_data_events(time_limit=seconds)
            # An end of the consumer, as when the queue is deleted, is no error of the connection.
            if self._consumer is not None and self._consumer not in self._channel.consumer_tags:
                raise SourceAway("the broker has ended the consumer; was the queue deleted?", where=self._place)

    @contextmanager
    def _reached(self) -> Iterator[None]:
        try:
            yield
        except (AMQPError, OSError) as error:
            if isinstance(error, ChannelClosedByBroker) and error.reply_code == 404:
                raise SourceAway(
                    "there is no such queue", where=self._place, remedy="declare it, or name another"
                ) from None
            raise SourceAway(reason_of(error), where=self._place) from None

    @property
    def _place(self) -> str:
        return f"{self._parameters.host}:{self._parameters.port}, queue {self._queue!r}"

    def _came(self, channel: Any, method: Any, properties: Any, body: bytes) -> None:
        headers: Mapping[str, Any] = properties.headers or {}
        context: dict[str, Property] = {
            **headers_of(headers, self.properties), "correlation_id": properties.correlation_id or None,
            "source_partition": self._queue, "source_key": method.routing_key or None, "source_id": properties.message_id or None,
            "redelivered": bool(method.redelivered),
        }  # fmt: skip
        sender, message_id = None, None
        if properties.message_id:
            parts = (method.exchange, properties.app_id or "", properties.message_id)
            sender, message_id = id_of("rabbitmq", *parts), id_of("rabbitmq", *parts, body=body)
        else:
            self._tell(
                "id",
                "a message has no message_id: such messages come in at least once, not once (property redelivered)",
            )
        if isinstance(count := headers.get(_COUNT), int) and count >= _OFTEN:
            self._tell(
                "count", f"a message was delivered {count} times; RabbitMQ 4 drops one of a quorum queue after 20"
            )
        kind = self._type or properties.type or method.routing_key or self._queue
        message = made(kind, body, context, message_id, properties.content_type)
        self._arrived.append(Taken(self._queue, message, sender, method.delivery_tag))

    def _tell(self, what: str, text: str) -> None:
        if what not in self._told:
            self._told.add(what)
            LOG.warning("port_remark", port=self.name, error=text)


def headers_of(headers: Mapping[str, Any], chosen: Mapping[str, str] | None) -> dict[str, Property]:
    """The headers as properties: the chosen ones, or all that can be some."""
    if chosen is not None:
        return {name: _value(headers.get(header)) for name, header in chosen.items()}
    return {
        name: found for name, value in headers.items() if _is_property(name) and (found := _value(value)) is not None
    }


def _is_property(name: str) -> bool:
    try:
        return checked_property(name, OF_MESSAGES) != "type"
    except UsageError:
        return False


def _value(value: Any) -> Property:
    if isinstance(value, bytes):
        with suppress(UnicodeDecodeError):
            return value.decode()
        return None
    return value if isinstance(value, str | int | float | Decimal | datetime) else None
