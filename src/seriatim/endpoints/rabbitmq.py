"""The RabbitMQ port: publishes each message to an exchange, at least once, and waits until the broker has confirmed it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from decimal import Decimal
from typing import Any

from seriatim.endpoints.delivery import Delivered, Transaction, given_messages, idempotency_key, in_hand
from seriatim.errors import Business, Transient, UsageError, shown
from seriatim.extras import need
from seriatim.pipeline.text.typed import typed
from seriatim.pipeline.types.message import Property, Received

need("rabbitmq")

import pika  # noqa: E402 -- the extra was asked for
from pika.exceptions import AMQPConnectionError, AMQPError, ChannelClosedByBroker, NackError, UnroutableError  # noqa: E402

_PATIENCE_S = 10.0
# It logs each failure in a dozen lines, and raises it, too.
if logging.getLogger("pika").level == logging.NOTSET:
    logging.getLogger("pika").setLevel(logging.CRITICAL)


class RabbitmqPort:
    """A handler that publishes to an exchange. Threads share one; each has a connection and a channel of its own, on which the messages
    of a group follow one another. A message is persistent, and mandatory: one for which no queue is bound fails.

    Args:
        url: ``amqp://USER:PASSWORD@HOST:PORT/VHOST``.
        exchange: the exchange; default: the one that leads to the queue with the name of the routing key.
        routing_key: the routing key; default: the group, or the message's type where there is none.
        headers: further headers, name → property. Each message has the headers ``queue``, ``group``, ``incarnation``, ``ordinal`` and
            ``idempotency_key``.
        app_id: the AMQP property ``app_id``, which tells receivers whose ids they are.
    """

    @typed
    def __init__(
        self,
        url: str,
        *,
        exchange: str = "",
        routing_key: str | None = None,
        headers: Mapping[str, str] | None = None,
        app_id: str = "seriatim",
    ) -> None:
        self._parameters = parameters_of(url)
        if not exchange and not routing_key:
            raise UsageError(
                "the port has neither an exchange nor a routing key",
                remedy="give the exchange, or the queue as routing_key",
            )
        for what, value in (("exchange", exchange), ("routing_key", routing_key or ""), ("app_id", app_id)):
            if len(value.encode()) > 255:
                raise UsageError(f"{what} can't be {shown(value)}", remedy="text of at most 255 bytes")
        self._exchange, self._routing_key, self._app_id = exchange, routing_key, app_id
        self._headers = dict(headers or {})
        #: The broker, for errors.
        self.place = f"{self._parameters.host}:{self._parameters.port}"
        self._lock = threading.Lock()
        self._connections: dict[int, tuple[Any, Any]] = {}

    def __call__(self, received: Received | Delivered, tx: Transaction) -> None:
        """Publish the given messages, one after another; each is confirmed before the next one."""
        delivered = in_hand(tx)
        for message in given_messages(received):
            self._publish(delivered, message)

    def close(self) -> None:
        with self._lock:
            connections, self._connections = self._connections, {}
        for connection, _ in connections.values():
            with suppress(AMQPError, OSError):
                connection.close()

    def _publish(self, delivered: Delivered, message: Received) -> Any:
        properties = pika.BasicProperties(
            content_type=message.content_type, delivery_mode=2, message_id=_short(message.message_id), app_id=self._app_id,
            correlation_id=_short(message.context.get("correlation_id")), type=_short(message.type),
            headers=self._headers_of(delivered, message),
        )  # fmt: skip
        key = self._routing_key or delivered.group or message.type
        if len(key.encode()) > 255:
            raise Business("the routing key has more than 255 bytes", where=self.place)
        while True:
            is_fresh = threading.get_ident() not in self._connections
            try:
                return self._channel().basic_publish(self._exchange, key, message.body, properties, mandatory=True)
            except UnroutableError:
                raise Business(f"no queue is bound for the routing key {shown(key)}", where=self.place) from None
            except NackError:
                raise Transient("the broker didn't take the message", where=self.place) from None
            except (AMQPError, OSError) as error:
                self._drop()
                if is_fresh or isinstance(error, ChannelClosedByBroker):  # else it had been idle for too long
                    raise Transient(reason_of(error), where=self.place) from None
            except (
                ValueError,
                TypeError,
                AssertionError,
                UnicodeError,
                pika.exceptions.UnsupportedAMQPFieldException,
            ) as error:
                self._drop()
                raise Business(f"the message can't be sent: {error}", where=self.place) from None

    def _headers_of(self, delivered: Delivered, message: Received) -> dict[str, Any]:
        given: dict[str, Property] = {
            "queue": delivered.queue, "group": delivered.group, "incarnation": delivered.incarnation, "ordinal": message.ordinal,
            **{name: message.context.get(property_) for name, property_ in self._headers.items()},
        }  # fmt: skip
        sent = [f"{name}: {given[name]}" for name in self._headers]
        found = {name: _header(value) for name, value in given.items() if value is not None}
        return found | {"idempotency_key": idempotency_key(delivered, message, sent)}

    def _channel(self) -> Any:
        """This thread's channel."""
        who = threading.get_ident()
        if who not in self._connections:
            connection = pika.BlockingConnection(self._parameters)
            channel = connection.channel()
            channel.confirm_delivery()
            with self._lock:
                self._connections[who] = connection, channel
        return self._connections[who][1]

    def _drop(self) -> None:
        with self._lock:
            connection, _ = self._connections.pop(threading.get_ident(), (None, None))
        if connection is not None:
            with suppress(AMQPError, OSError):
                connection.close()


def parameters_of(url: str) -> Any:
    """Parse the address of a broker; no error has its password."""
    try:
        parameters = pika.URLParameters(url)
    except Exception:  # noqa: BLE001 -- it raises whatever its parts do
        raise UsageError("the url of the broker can't be read", remedy="amqp://USER:PASSWORD@HOST:5672/VHOST") from None
    if not url.startswith(("amqp://", "amqps://")) or not parameters.host:
        raise UsageError(
            "the url of the broker must begin with amqp:// or amqps://", remedy="amqp://USER:PASSWORD@HOST:5672/VHOST"
        )
    parameters.socket_timeout = parameters.stack_timeout = parameters.blocked_connection_timeout = _PATIENCE_S
    parameters.connection_attempts = 1
    return parameters


def reason_of(error: BaseException) -> str:
    """Why the broker can't be used, in a line without secrets."""
    if isinstance(error, AMQPConnectionError) and error.args and isinstance(error.args[0], BaseException):
        error = error.args[0]
    text = getattr(error, "reply_text", None) or getattr(error, "strerror", None) or str(error)
    return f"{type(error).__name__}{f': {text}' if text else ''}"[:300]


def _short(value: object) -> str | None:
    """A short string of AMQP; None if it isn't one."""
    return value if isinstance(value, str) and value and len(value.encode()) <= 255 else None


def _header(value: Property) -> Any:
    match value:
        case datetime():
            return value.isoformat()
        case Decimal():
            return str(value)
    return value
