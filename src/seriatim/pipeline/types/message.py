"""The message, as an application gives it to the box."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

from seriatim.errors import Business, UsageError, shown
from seriatim.pipeline.text.storable import fits_text
from seriatim.pipeline.types.sent_by import SentBy

_LONGEST_NAME = 256
#: In UTF-8: an index of PostgreSQL has to take it.
_LONGEST_ID_BYTES = 1024

#: What a property of a message can be: string, long, decimal, boolean or timestamp.
Property = str | int | Decimal | float | bool | datetime | None


class TypedGetters:
    """The getters of a message's properties. An optional property is read with ``message.context.get(name)``."""

    __slots__ = ()

    context: Mapping[str, Any]
    message_id: str

    def text(self, name: str) -> str:
        """A property of type string."""
        return self._typed(name, "text", str)

    def whole(self, name: str) -> int:
        """A property of type long."""
        return self._typed(name, "a whole number", int)

    def decimal(self, name: str) -> Decimal:
        """A property of type decimal; also of type long."""
        return Decimal(self._typed(name, "a decimal number", Decimal, int))

    def double(self, name: str) -> float:
        """A property of type double; also of type long."""
        return float(self._typed(name, "a number", float, int))

    def flag(self, name: str) -> bool:
        """A property of type boolean."""
        return self._typed(name, "true or false", bool)

    def moment(self, name: str) -> datetime:
        """A property of type timestamp."""
        return self._typed(name, "a timestamp", datetime)

    def _typed(self, name: str, wanted: str, *types: type) -> Any:
        if not isinstance(name, str):
            raise UsageError(
                f"{shown(name, 80)} can't be the name of a property", remedy="text, such as 'customer'", argument="name"
            )
        value = self.context.get(name)
        if isinstance(value, types) and (not isinstance(value, bool) or bool in types):
            return value
        if value is None:
            what = f"property {name!r} is null" if name in self.context else f"there is no property {name!r}"
            remedy = f"it has {', '.join(sorted(self.context)) or 'none'}; context.get({name!r}) reads an optional one"
        else:
            what, remedy = (
                f"property {name!r} is {type(value).__name__}, not {wanted}",
                "declare its type in the message type",
            )
        raise Business(what, where=f"message {self.message_id}", remedy=remedy)


class Ticket(NamedTuple):
    """The `number` of one message in its `epoch` at its `location`."""

    location: str
    epoch: int
    number: int


def _is_text(value: object) -> bool:
    return isinstance(value, str) and value != "" and fits_text(value)


def _check_content(content_type: object, body: object, of: str) -> None:
    """Refuse a content type that isn't text, or a body that isn't bytes."""
    if content_type is not None and not _is_text(content_type):
        raise UsageError(
            f"the content type of {of} can't be {shown(content_type, 80)}",
            remedy="a media type, without NUL, or None",
            argument="content_type",
        )
    if not isinstance(body, bytes):
        raise UsageError(f"the body of {of} is {type(body).__name__}", remedy="give bytes: encode it", argument="body")


def new_message_id() -> str:
    """A new, unique id: a UUID of version 7, so that later ids sort after earlier ids."""
    moment_ms = time.time_ns() // 1_000_000
    chance = int.from_bytes(os.urandom(10)) & ~(0xF << 76) & ~(0x3 << 62)
    digits = f"{moment_ms << 80 | 0x7 << 76 | 0x2 << 62 | chance:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


@dataclass(frozen=True, slots=True)
class Part:
    """An attachment of a message.

    Args:
        name: its name, unique in the message; at most 256 characters.
        content_type: its media type.
        body: its content.

    Raises:
        UsageError: a name that isn't text, a body that isn't bytes.
    """

    name: str
    content_type: str | None = None
    body: bytes = field(default=b"", repr=False)

    def __post_init__(self) -> None:
        if not _is_text(self.name) or len(self.name) > _LONGEST_NAME:
            raise UsageError(
                f"{shown(self.name, 80)} can't be the name of a part",
                remedy=f"text, 1 to {_LONGEST_NAME} characters, without NUL",
                argument="name",
            )
        _check_content(self.content_type, self.body, f"part {self.name!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Message(TypedGetters):
    """A message; immutable. Its `repr` leaves bodies out, because they may contain secrets.

    Args:
        type: the name of its message type.
        body: its content.
        context: its properties; ``location`` among them is the location that receives it (default: ``box``).
        message_id: its id, by which a repeated message is recognised; at most 1,024 bytes of UTF-8. Default: a new id.
        content_type: the media type of the body.
        parts: its attachments, in order, with different names.

    Raises:
        UsageError: a type or id that isn't text, a context that isn't a mapping, a body that isn't bytes, or a part that isn't
            a `Part`.
    """

    type: str
    body: bytes = field(default=b"", repr=False)
    context: Mapping[str, Property] = field(default_factory=dict)
    message_id: str = field(default_factory=new_message_id)
    content_type: str | None = None
    parts: Sequence[Part] = ()

    def __post_init__(self) -> None:
        self.check()

    def check(self) -> None:
        """Check that the message can be published. The errors are the same as for the class."""
        for name, text in (("type", self.type), ("message_id", self.message_id)):
            if not _is_text(text):
                raise UsageError(
                    f"{shown(text, 80)} can't be the {name} of a message",
                    remedy="text, not empty, without NUL",
                    argument=name,
                )
        # No character has more than four bytes.
        if len(self.message_id) > _LONGEST_ID_BYTES // 4 and len(self.message_id.encode()) > _LONGEST_ID_BYTES:
            raise UsageError(
                f"{shown(self.message_id, 80)} can't be the message_id of a message",
                remedy=f"at most {_LONGEST_ID_BYTES:,} bytes of UTF-8",
                argument="message_id",
            )
        if not isinstance(self.context, Mapping):
            raise UsageError(
                f"the context of message {self.message_id} is {type(self.context).__name__}",
                remedy="give a dictionary: its properties by their names",
                argument="context",
            )
        _check_content(self.content_type, self.body, f"message {self.message_id}")
        if self.parts != ():
            object.__setattr__(self, "parts", self._checked_parts())

    def _checked_parts(self) -> tuple[Part, ...]:
        where = f"message {self.message_id}"
        if not isinstance(self.parts, Sequence) or not all(isinstance(part, Part) for part in self.parts):
            raise UsageError("parts must be a list of seriatim.Part", where=where, argument="parts")
        names = Counter(part.name for part in self.parts)
        if repeated := {name for name, count in names.items() if count > 1}:
            raise UsageError(
                f"two parts are named {min(repeated)!r}", where=where, remedy="give each its own name", argument="parts"
            )
        return tuple(self.parts)


#: How the fields of a frozen message are set and read: as fast as possible.
_FIELDS = {each.name: getattr(Message, each.name) for each in fields(Message)}
_COPIED = tuple((one.__set__, one.__get__) for name, one in _FIELDS.items() if name != "context")
_SET_CONTEXT = _FIELDS["context"].__set__


def with_context(message: Message, context: Mapping[str, Property]) -> Message:
    """A copy of a message with other properties, as a plain `Message`. `dataclasses.replace` would check again what was checked when the
    message was made, and costs as much as all the rest of stamping it.
    """
    if type(message) is not Message:
        message.check()  # its receiver may have changed it
    copy = object.__new__(Message)
    for put, get in _COPIED:
        put(copy, get(message))
    _SET_CONTEXT(copy, context)
    return copy


class Dialog(NamedTuple):
    """The dialog of a received message, seen from the receiver's side.

    Args:
        handle: the receiver's handle, for `send` and `end`; the other side has another handle.
        conversation_id: the id that both sides share.
        service: the receiver's service.
        far_service: the sender's service.
        contract: the contract under which the dialog was begun.
        type: the type of the message.
        sequence: its number in its direction, from 0; None for an ``Error`` or a ``Timer``, which overtake other messages.
        is_initiator: whether the receiver began the dialog.
        is_monolog: whether it is one-way, to several receivers.
        far_box: the id of the box of the other side; None if it is this one.
        principal: by which role, or by which key (SHA-256, in hex), that box speaks here; None where this one calls it.
    """

    handle: UUID
    conversation_id: UUID
    service: str
    far_service: str
    contract: str
    type: str
    sequence: int | None
    is_initiator: bool
    is_monolog: bool = False
    far_box: UUID | None = None
    principal: str | None = None

    def properties(self) -> dict[str, Property]:
        """The dialog as properties, by their names."""
        return {
            "handle": str(self.handle),
            "conversation_id": str(self.conversation_id),
            "service": self.service,
            "far_service": self.far_service,
            "contract": self.contract,
            "dialog_sequence": self.sequence,
            "is_initiator": self.is_initiator,
            "is_monolog": self.is_monolog,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Received(Message):
    """A message as a queue of a box hands it out.

    The message was checked when it was published. Publishing it again checks it again.

    Args:
        ticket: its number at its location.
        received_at: when it was published.
        group: the key of its group; None in an `Unordered` queue without a gate.
        sequence: its position in its group, as its producer numbered it; None if the queue's policy needs no number, as by position.
        ordinal: its position among the released messages of its group; in an `Unordered` queue with a gate among the messages that
            came to its group, and without one None.
        late: whether it left out of order.
        attempt: the number of times it was handed out, this time included, as far as the box knows.
        priority: 1 to 10.
        subscriptions: the names of the subscriptions that led it to the queue.
        dialog: its dialog; None if it was published.
        replayed: whether it came over a link after a restore of either box, so that this box may have had it before.
        overlaps: whether it has numbers that have left before.
        partial: whether its set isn't complete: its time was over.
        missing: the numbers that its set lacks.
        epoch: its epoch, if its queue has epochs; None: its queue has none, or it has no number.
    """

    ticket: Ticket
    received_at: datetime
    group: str | None = None
    sequence: int | None = None
    ordinal: int | None = None
    late: bool = False
    attempt: int = 1
    priority: int = 5
    subscriptions: tuple[str, ...] = ()
    dialog: Dialog | None = None
    replayed: bool = False
    overlaps: bool = False
    partial: bool = False
    missing: tuple[int, ...] = ()
    epoch: int | None = None

    @property
    def sent_by(self) -> SentBy | None:
        """Where it came into its first box, for a message that came over a link; None: it was published in this box."""
        return SentBy.of(self.context)

    def __post_init__(self) -> None:
        """Check nothing, because a receiver makes such an object for each message."""
