"""The parts of a session and a delivery that a port needs, and the key by which a receiver recognises a repeated message."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Protocol

import psycopg

from seriatim.errors import UsageError, shown
from seriatim.kernel.values.time import micros, seconds
from seriatim.pipeline.types.message import Received

_LONGEST_TIMEOUT_S = 86_400.0


class Delivered(Protocol):
    """Messages of one group, as a session received them."""

    queue: str
    group: str | None
    incarnation: int
    messages: Sequence[Received]


class Transaction(Protocol):
    @property
    def connection(self) -> psycopg.Connection:
        """The psycopg connection; writes through it commit with the messages."""

    @property
    def delivery(self) -> Delivered | None:
        """The last delivery that was received in it."""


def seconds_of(timeout: float | str, least: float = 0.001) -> float:
    """The seconds of a time-out."""
    found = seconds(micros(timeout))
    if not least <= found <= _LONGEST_TIMEOUT_S:
        raise UsageError(
            f"timeout can't be {shown(timeout)}", remedy=f"from {least:g} s to a day, such as 10s", argument="timeout"
        )
    return found


def in_hand(tx: Transaction) -> Delivered:
    delivery = tx.delivery
    if delivery is None:
        raise UsageError(
            "a port can only deliver messages that a worker received", remedy="pass it to a Worker as its handler"
        )
    return delivery


def given_messages(received: Received | Delivered) -> Sequence[Received]:
    """The messages that a handler gets: one, or those of a batch."""
    return [received] if isinstance(received, Received) else received.messages


def idempotency_key(delivered: Delivered, message: Received, sent: Sequence[str] = ()) -> str:
    """32 hexadecimal digits, always the same for the same message from the same place. The place is queue, group, incarnation and ordinal;
    in a queue without order the ticket, since two roles may give their messages one id. The id distinguishes messages of two boxes. The
    body, and the properties that are sent, distinguish an edited message from the original: a receiver that has refused the original should
    check the edited one again.
    """
    number = message.ticket if message.ordinal is None else message.ordinal
    place = [delivered.queue, delivered.group, delivered.incarnation, number, message.message_id, *sent]
    return hashlib.sha256(json.dumps(place).encode() + b"\0" + message.body).hexdigest()[:32]
