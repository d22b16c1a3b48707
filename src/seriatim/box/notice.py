"""Notices: what a transaction found to have gone wrong, as values; the end of the call publishes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from seriatim.box.definitions import BoxQueue
from seriatim.kernel.outcome import Disposition, EventKind
from seriatim.pipeline.failure import Failed
from seriatim.pipeline.message import Message

if TYPE_CHECKING:
    from seriatim.box.resequence import Judged

__all__ = [
    "EntryFailed",
    "HolePassed",
    "KeptOut",
    "MessageFailed",
    "Notice",
    "SetAside",
    "dead",
    "invalid",
    "of_judged",
    "unrouted",
]

_HOLES = (EventKind.TIMED_OUT, EventKind.HOLE_SKIPPED)
_NOBODY = "no subscription wants it"
_FINAL = (Disposition.DEAD.word, Disposition.INVALID.word)


@dataclass(frozen=True, slots=True)
class MessageFailed:
    """What became of a message that is at hand, without its body."""

    message: Message
    what: Failed


@dataclass(frozen=True, slots=True)
class EntryFailed:
    """What a handler failed at, of which only the entry is known; its attempt is counted already."""

    entry_id: int
    what: Failed


@dataclass(frozen=True, slots=True)
class SetAside:
    """Entries that were set aside as dead or invalid."""

    entry_ids: Sequence[int]


@dataclass(frozen=True, slots=True)
class HolePassed:
    """A hole of a group that timed out, or was skipped (`kind`): the numbers from `first` to `last`."""

    queue: BoxQueue
    group: str
    kind: EventKind
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class KeptOut:
    """Messages that the transaction has published and that nobody wanted, or a queue set aside as invalid; None: all."""

    message_ids: Sequence[str] | None = None


Notice = MessageFailed | EntryFailed | SetAside | HolePassed | KeptOut


def of_judged(
    queue: BoxQueue, keys: Sequence[str], judged: Judged, kinds: Sequence[EventKind] = _HOLES
) -> list[Notice]:
    """What a turn found: holes whose time is over, and what is dead or invalid.

    Args:
        queue: whose groups.
        keys: the groups of the turn.
        judged: what it decided.
        kinds: the events of holes to notice.
    """
    changes, events = judged.changes, judged.events
    found: list[Notice] = []
    if len(events):
        holes = events.take(np.isin(events.kind, kinds))
        found += [
            HolePassed(queue, keys[at], EventKind(kind), first, last)
            for at, kind, first, last in zip(
                holes.group.tolist(), holes.kind.tolist(), holes.first.tolist(), holes.last.tolist(), strict=True
            )
        ]
    gone = [
        entry_id
        for entry_id, disposition in zip(changes["aside_ids"], changes["aside_dispositions"], strict=True)
        if disposition in _FINAL
    ]
    return [*found, SetAside(gone)] if gone else found


def dead(queue: str | None, group: str | None, why: str) -> Failed:
    """What is told of a message that was set aside for good."""
    return Failed(queue, group or None, kind="dead", error_class="DeadLetter", error=why, attempts=0, dead_letter=True)


def invalid(queue: str | None, group: str | None, why: str | None) -> Failed:
    """What is told of a message that isn't what the queue, or its type, asks for."""
    return Failed(queue, group or None, kind="invalid", error_class="Invalid", error=why or "", attempts=0)


def unrouted(why: str | None) -> Failed:
    """What is told of a message that is in no queue: why, if not that nobody wants it."""
    return Failed(None, None, kind="unrouted", error_class="Unrouted", error=why or _NOBODY, attempts=0)
