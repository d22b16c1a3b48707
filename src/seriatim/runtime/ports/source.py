"""What a port takes messages from: `Source`, what it promises about order, and a message that was taken."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, ClassVar
from urllib.parse import quote

from seriatim.errors import Transient, UsageError
from seriatim.pipeline.text.storable import fits_text
from seriatim.pipeline.types.message import Message, Property
from seriatim.pipeline.types.properties import OF_MESSAGES, checked_property

#: The type of a message that the box refused as its source has it; the property `refused` says why.
REFUSED = "seriatim.refused"
#: Bytes of a message id, of which a source has its parts.
_LONGEST_ID = 900


class SourceAway(Transient):
    """A broker can't be reached, or has closed the connection: it is tried again."""


@dataclass(frozen=True, slots=True)
class Promise:
    """What a kind of source promises about order."""

    #: Within which part of the source messages come in order, in words.
    order: str
    #: Whether that order is kept when the port, the source or PostgreSQL dies.
    keeps_order_over_a_crash: bool
    #: Which policy fits, and why.
    advice: str
    #: Whether each message has an id, so that it comes into the box once.
    is_once: bool = True


@dataclass(frozen=True, slots=True)
class Taken:
    """A message that was taken from a source and isn't acknowledged."""

    partition: str
    message: Message
    #: The sender's id, without a digest of the body; None: the message's id is the position, or there is none.
    sender: str | None = None
    #: What the source acknowledges it by.
    handle: Any = field(default=None, repr=False)
    #: Where the partition goes on behind it, as JSON; None: the source keeps that.
    position: Any = None

    @property
    def size(self) -> int:
        """The bytes of its body."""
        return len(self.message.body)

    def refused(self, why: str) -> Taken:
        """The same with a message that the box takes whatever the source says of it."""
        own = ("source_port", "source_partition", "source_position", "redelivered", "location")
        context = {name: value for name, value in self.message.context.items() if name in own}
        told = f"{self.message.type[:200]}: {why[:1000]}".replace("\0", "?").encode(errors="replace").decode()
        content_type = self.message.content_type
        return replace(
            self,
            message=Message(
                type=REFUSED, body=self.message.body, message_id=self.message.message_id, context={**context, "refused": told},
                content_type=content_type if content_type and fits_text(content_type) else None,
            ),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a message: it is in the box, though perhaps in no queue."""

    taken: Taken
    #: Whether it had come before.
    is_left_out: bool = False


class Source(ABC):
    """A source of messages, for one thread. A port gives it its partitions, as far as no other process reads them."""

    kind: ClassVar[str]
    promise: ClassVar[Promise]
    #: The name of the port, unless it is given another one; and the name in the message's properties.
    name: str
    #: The chosen properties, and where in the source each one is found; None: all headers.
    properties: Mapping[str, str] | None = None

    @abstractmethod
    def partitions(self) -> Sequence[str]:
        """The partitions that it has now.

        Raises:
            SourceAway: it can't be asked now; the same for all the others.
        """

    def starts(self) -> Mapping[str, Any]:
        """Where its partitions begin for a port that is new, as JSON, if not at their beginnings. The box keeps that before one begins."""
        return {}

    @abstractmethod
    def begin(self, partition: str, position: Any) -> None:
        """Begin to take messages from a partition, behind the position that was last committed; None: there is none."""

    @abstractmethod
    def end(self, partition: str) -> None:
        """Stop taking from a partition; what was taken and isn't acknowledged goes back."""

    @abstractmethod
    def take(self, most: int, wait_s: float) -> list[Taken]:
        """Take messages, in order; wait for the first one."""

    @abstractmethod
    def acknowledge(self, outcomes: Sequence[Outcome]) -> None:
        """Acknowledge messages that are committed."""

    def position(self, taken: Sequence[Taken]) -> Any:
        """Where a partition goes on behind these messages of it, as JSON; None: it doesn't go on, or the source keeps that."""
        return taken[-1].position

    def comes_again(self, taken: Taken) -> bool:
        """Whether a message that was taken is to be left to its sender, which sends it again in any case."""
        return False

    def hold(self, partition: str) -> None:  # noqa: B027 -- most need nothing
        """Take no more from a partition for a while, if it would send without a bound."""

    def go_on(self, partition: str) -> None:  # noqa: B027
        """Take again from a partition."""

    def give_back(self) -> bool:
        """Give back what was taken and isn't acknowledged, where others could want it; return False if it is to be kept."""
        return False

    def close(self) -> None:  # noqa: B027
        """Close its connections."""


def id_of(kind: str, *parts: str) -> str:
    text = "/".join([kind, *(quote(part, safe="") for part in parts)])
    return text if len(text) <= _LONGEST_ID else f"{kind}/~{hashlib.sha256(text.encode()).hexdigest()}"


def with_digest(sender: str, body: bytes) -> str:
    """A message id of the sender's id and its body."""
    return f"{sender}#{hashlib.sha256(body).hexdigest()[:32]}"


def made(
    kind: str, body: bytes, context: Mapping[str, Property], message_id: str | None, content_type: str | None
) -> Message:
    """A message as its source has it; of one that can be none the box keeps the reason."""
    given: dict[str, Any] = {} if message_id is None else {"message_id": message_id}
    known = {name: value for name, value in context.items() if value is not None}
    try:
        return Message(type=kind, body=body, context=known, content_type=content_type or None, **given)
    except UsageError as error:
        base = Message(type=REFUSED, body=body, context=known, **given)
        return Taken("", base).refused(str(error)).message


def properties_of(headers: Mapping[str, Any], chosen: Mapping[str, str] | None, own: Collection[str]) -> dict[str, Any]:
    """The headers as properties: the chosen ones, or all that can be some; `own`: without those that the source uses itself."""
    if chosen is not None:
        return {name: headers.get(header) for name, header in chosen.items()}
    return {name: value for name, value in headers.items() if name not in own and _is_property(name)}


@lru_cache(maxsize=1000)
def _is_property(name: str) -> bool:
    try:
        return bool(checked_property(name, OF_MESSAGES - {"correlation_id"}))
    except UsageError:
        return False


def property_names(given: Mapping[str, str] | None, what: str) -> dict[str, str]:
    """Properties by their names, and where in the source each one is found."""
    found = dict(given or {})
    for name, place in found.items():
        checked_property(name)
        if not place:
            raise UsageError(f"the property {name!r} has no {what}", remedy=f"properties: {{{name}: …}}")
    return found
