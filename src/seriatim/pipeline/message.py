"""The message, as an application gives it to the box."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import NamedTuple
from uuid import UUID

from seriatim.errors import UsageError

__all__ = ["Message", "Property", "Received", "Ticket", "new_message_id"]

#: What a property of a message can be: string, long, decimal, boolean or timestamp.
Property = str | int | Decimal | float | bool | datetime | None


class Ticket(NamedTuple):
    """The `number` of one message in its `epoch` at its `location`."""

    location: str
    epoch: int
    number: int


def new_message_id() -> str:
    """An id that nobody else has: a UUID of version 7, so that ids made later sort later."""
    moment_ms = time.time_ns() // 1_000_000
    chance = int.from_bytes(os.urandom(10)) & ~(0xF << 76) & ~(0x3 << 62)
    return str(UUID(int=moment_ms << 80 | 0x7 << 76 | 0x2 << 62 | chance))


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A message; immutable.

    Args:
        type: what kind of message it is.
        body: its content.
        context: its properties; ``location`` among them says where it is received (default: ``box``).
        message_id: its id, by which a second publishing is recognised; given where it isn't.
        content_type: how the body is to be read, as a media type.

    Raises:
        UsageError: a type or id that isn't text, a body that isn't bytes.
    """

    type: str
    body: bytes = b""
    context: Mapping[str, Property] = field(default_factory=dict)
    message_id: str = field(default_factory=new_message_id)
    content_type: str | None = None

    def __post_init__(self) -> None:
        for name, text in (("type", self.type), ("message_id", self.message_id)):
            if not isinstance(text, str) or not text or "\0" in text:
                raise UsageError(f"{text!r} can't be the {name} of a message", remedy="text, not empty, without NUL")
        if not isinstance(self.body, bytes):
            raise UsageError(
                f"the body of message {self.message_id} is {type(self.body).__name__}", remedy="give bytes: encode it"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Received(Message):
    """A message as a queue of a box hands it out.

    Args:
        ticket: which message of which location it is.
        received_at: when it was published.
        sequence: its position in its group, as its producer numbered it; None where the queue doesn't go by that.
        ordinal: its position among all that left its group; None in a queue that is `Unordered`.
        late: whether it is out of order.
        attempt: how often it has been handed out, this time included, as far as the box was told.
        priority: 1 to 10.
        subscriptions: the names of those that brought it here.
    """

    ticket: Ticket
    received_at: datetime
    sequence: int | None = None
    ordinal: int | None = None
    late: bool = False
    attempt: int = 1
    priority: int = 5
    subscriptions: tuple[str, ...] = ()
