"""Notices: values that describe failures in a transaction. They are published at the end of the call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from seriatim.kernel.values.outcome import EventKind
from seriatim.pipeline.types.failure_message import Failed
from seriatim.pipeline.types.message import Message

_NOBODY = "no subscription wants it"


@dataclass(frozen=True, slots=True)
class MessageFailed:
    """A failed message whose row is known, without its body."""

    message: Message
    what: Failed


@dataclass(frozen=True, slots=True)
class EntryFailed:
    """A message at which a handler failed, known only by its entry; its attempt is counted already."""

    entry_id: int
    what: Failed


@dataclass(frozen=True, slots=True)
class EntriesSetAside:
    """Entries that were set aside as dead or invalid, or because they conflict. `together`: they are one failure, of the first."""

    entry_ids: Sequence[int]
    together: bool = False


@dataclass(frozen=True, slots=True)
class HolePassed:
    """A hole of a group that timed out, or was skipped (`kind`): the numbers from `first` to `last`."""

    queue_id: int
    queue: str
    group: str
    kind: EventKind
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class KeptOut:
    """Messages that the transaction has published and that are unrouted, or that a queue set aside as invalid; None: all."""

    message_ids: Sequence[str] | None = None


Notice = MessageFailed | EntryFailed | EntriesSetAside | HolePassed | KeptOut


def dead(queue: str | None, group: str | None, why: str) -> Failed:
    """The failure of a message that was set aside for good."""
    return Failed(queue, group or None, kind="dead", error_class="DeadLetter", error=why, attempts=0, dead_letter=True)


def conflict(queue: str | None, group: str | None, why: str | None) -> Failed:
    """The failure of a message with the number of another one and another content."""
    return Failed(queue, group or None, kind="conflict", error_class="Conflict", error=why or "", attempts=0)


def invalid(queue: str | None, group: str | None, why: str | None) -> Failed:
    """The failure of a message that doesn't fit its queue or its type."""
    return Failed(queue, group or None, kind="invalid", error_class="Invalid", error=why or "", attempts=0)


def unrouted(why: str | None) -> Failed:
    """The failure of a message that is in no queue; `why` is None if no subscription matches it."""
    return Failed(None, None, kind="unrouted", error_class="Unrouted", error=why or _NOBODY, attempts=0)
