"""The source RabbitMQ: takes the messages of a queue, and acknowledges them when they are committed."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from decimal import Decimal
from functools import partial
from typing import Any

from seriatim.errors import UsageError, shown
from seriatim.extras import need
from seriatim.pipeline.text.event_log import LOG
from seriatim.pipeline.text.typed import typed
from seriatim.pipeline.types.message import Property
from seriatim.runtime.ports.source import (
    Outcome,
    Promise,
    Source,
    SourceAway,
    Taken,
    id_of,
    made,
    properties_of,
    property_names,
    with_digest,
)

need("rabbitmq")

import pika  # noqa: E402 -- the extra was asked for
from pika.exceptions import AMQPError, ChannelClosedByBroker  # noqa: E402

from seriatim.endpoints.rabbitmq import parameters_of, reason_of  # noqa: E402

#: RabbitMQ 4 drops a message of a quorum queue after 20 deliveries; a port that gets one so often is told of.
_OFTEN = 10
_COUNT = "x-delivery-count"
#: Properties that AMQP gives itself.
_GIVEN = frozenset({"type", "correlation_id"})
#: Seconds: how long more messages are waited for, so that they share a transaction; between two looks whether the reader shall end; for its
#: end.
_MORE_S, _LOOK_S, _END_S = 0.005, 0.25, 15.0
#: Bytes of bodies that were read and aren't taken, until reading slows down; a reader that stops would be cut off by the broker.
_MOST_IN_MEMORY = 64 * 2**20


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

    @typed
    def __init__(
        self,
        url: str,
        queue: str,
        *,
        name: str | None = None,
        type: str | None = None,  # noqa: A002 -- as the text has it
        properties: Mapping[str, str] | None = None,
        prefetch: int = 1000,
    ) -> None:
        self._parameters = parameters_of(url)
        if not queue:
            raise UsageError(f"queue can't be {shown(queue)}", remedy="the name of a queue of RabbitMQ")
        if not 1 <= prefetch <= 65_535:
            raise UsageError(f"prefetch can't be {shown(prefetch)}", remedy="a number from 1 to 65,535")
        self.name = name or f"rabbitmq-{queue}"[:128]
        self.properties = None if properties is None else property_names(properties, "header")
        self._queue, self._type, self._prefetch = queue, type, prefetch
        self._reader: _Reader | None = None
        self._told: set[str] = set()

    def partitions(self) -> Sequence[str]:
        return (self._queue,)

    def begin(self, partition: str, position: Any) -> None:
        with self._reached():
            self._reader = _Reader(self._parameters, self._queue, self._prefetch, self._came)

    def end(self, partition: str) -> None:
        """Close the connection: the broker keeps what isn't acknowledged."""
        self.close()

    def close(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()

    def take(self, most: int, wait_s: float) -> list[Taken]:
        if self._reader is None:  # all was given back
            time.sleep(wait_s)
            return []
        with self._reached():
            return self._reader.take(most, wait_s)

    def acknowledge(self, outcomes: Sequence[Outcome]) -> None:
        with self._reached():
            if self._reader is not None:
                self._reader.acknowledge(outcomes[-1].taken.handle)

    def go_on(self, partition: str) -> None:
        if self._reader is None:
            self.begin(partition, None)

    def give_back(self) -> bool:
        """Stop consuming, and give everything back that isn't acknowledged. Before that a full queue is waited for while the broker sends
        no more than `prefetch`: what goes back to a quorum queue loses its place.
        """
        self.close()
        return True

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

    def _came(self, method: Any, properties: Any, body: bytes) -> Taken:
        headers: Mapping[str, Any] = properties.headers or {}
        context: dict[str, Property] = {
            **{name: _value(value) for name, value in properties_of(headers, self.properties, _GIVEN).items()},
            "correlation_id": properties.correlation_id or None,
            "source_partition": self._queue, "source_key": method.routing_key or None, "source_id": properties.message_id or None,
            "redelivered": bool(method.redelivered),
        }  # fmt: skip
        sender, message_id = None, None
        if properties.message_id:
            sender = id_of("rabbitmq", method.exchange, properties.app_id or "", properties.message_id)
            message_id = with_digest(sender, body)
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
        return Taken(self._queue, message, sender, method.delivery_tag)

    def _tell(self, what: str, text: str) -> None:
        if what not in self._told:
            self._told.add(what)
            LOG.warning("port_remark", port=self.name, error=text)


class _Reader:
    """A connection to the broker, with a thread of its own: while a batch is committed, the next one is read, and heartbeats are answered.

    Args:
        came: makes a message of what was delivered.

    Raises:
        AMQPError: the broker can't be reached, or has no such queue; the same for the methods, as soon as it is gone.
        OSError: the same.
    """

    def __init__(self, parameters: Any, queue: str, prefetch: int, came: Callable[[Any, Any, bytes], Taken]) -> None:
        self._came = came
        self._read: list[Taken] = []
        #: Guards what follows it.
        self._changed = threading.Condition()
        self._arrived: deque[Taken] = deque()
        self._bytes = 0
        self._error: Exception | None = None
        self._is_over = False
        self._connection = pika.BlockingConnection(parameters)
        try:
            self._channel = self._connection.channel()
            self._channel.queue_declare(queue, passive=True)
            self._channel.basic_qos(prefetch_count=prefetch)
            self._consumer = self._channel.basic_consume(queue, self._delivered)
        except BaseException:
            self._disconnect()
            raise
        self._thread = threading.Thread(target=self._run, name=f"seriatim rabbitmq {queue}", daemon=True)
        self._thread.start()

    def take(self, most: int, wait_s: float) -> list[Taken]:
        """Take what has come; wait for the first one, and a little for others, so that they share a transaction."""
        with self._changed:
            self._changed.wait_for(lambda: self._arrived or self._error, wait_s)
            if self._arrived:
                self._changed.wait_for(lambda: len(self._arrived) >= most or self._error, _MORE_S)
            if self._error is not None:
                raise self._error
            found = [self._arrived.popleft() for _ in range(min(most, len(self._arrived)))]
            self._bytes -= sum(one.size for one in found)
            self._changed.notify_all()
            return found

    def acknowledge(self, tag: int) -> None:
        self._connection.add_callback_threadsafe(partial(self._channel.basic_ack, tag, multiple=True))

    def close(self) -> None:
        """Send the acknowledgements that are due, and close the connection."""
        with suppress(AMQPError):
            self._connection.add_callback_threadsafe(self._end)
        self._thread.join(_END_S)

    def _end(self) -> None:
        self._is_over = True

    def _delivered(self, _: Any, method: Any, properties: Any, body: bytes) -> None:
        self._read.append(self._came(method, properties, body))

    def _run(self) -> None:
        try:
            while not self._is_over:
                self._go_on()
        except Exception as error:  # noqa: BLE001 -- it is raised in the port's thread
            with self._changed:
                self._error = error
                self._changed.notify_all()
        finally:
            self._disconnect()

    def _go_on(self) -> None:
        """Read what has come; large bodies stay with the broker as long as there is no room for them."""
        self._connection.process_data_events(time_limit=_LOOK_S)
        # An end of the consumer, as when the queue is deleted, is no error of the connection.
        if self._consumer not in self._channel.consumer_tags:
            raise AMQPError("the broker has ended the consumer; was the queue deleted?")
        read, self._read = self._read, []
        with self._changed:
            self._arrived += read
            self._bytes += sum(one.size for one in read)
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._bytes <= _MOST_IN_MEMORY, _LOOK_S)

    def _disconnect(self) -> None:
        with suppress(AMQPError, OSError):
            self._connection.close()


def _value(value: Any) -> Property:
    if isinstance(value, bytes):
        with suppress(UnicodeDecodeError):
            return value.decode()
        return None
    return value if isinstance(value, str | int | float | Decimal | datetime) else None
