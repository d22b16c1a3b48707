"""The state of one message, in each queue that has it; with a wait until it is final. Reads without locks.

No notification comes when a message is done: it would cost every completion. So a waiting caller looks again, at first soon, and then
once a second; between two looks it has no connection. (Decision 0062.)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from seriatim.box.connection.access import Transaction
from seriatim.box.views.message_places import check_one_space
from seriatim.box.views.not_done import REASONS
from seriatim.kernel.values.outcome import Disposition

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.02, 1.0
_TO_ROUTE = "it was published through SQL, and nobody has routed it yet"
_NOBODY = "no subscription wants it"


class MessageState(StrEnum):
    WAITING = "waiting"
    IN_HAND = "in_hand"
    DONE = "done"
    #: As late, duplicate, invalid or rejected.
    SET_ASIDE = "set_aside"
    DEAD = "dead"
    UNROUTED = "unrouted"
    UNKNOWN = "unknown"


#: Altogether it has the first of these that it has anywhere.
_ORDER = (
    *(MessageState.IN_HAND, MessageState.WAITING, MessageState.UNROUTED, MessageState.DEAD),
    *(MessageState.SET_ASIDE, MessageState.DONE, MessageState.UNKNOWN),
)
_OPEN = (MessageState.IN_HAND, MessageState.WAITING, MessageState.UNKNOWN)


@dataclass(frozen=True, slots=True)
class QueueStatus:
    #: The queue's name; None: it is in no queue (unrouted, or not routed yet).
    queue: str | None
    #: The key of its group; None if it has none.
    group: str | None
    state: MessageState
    #: Why it waits, was set aside or is unrouted; empty if it is done.
    reason: str
    #: When it is due, if it waits for a time that is known.
    until: datetime | None
    #: When it was done, set aside or found to be unrouted.
    since: datetime | None
    attempt: int


@dataclass(frozen=True, slots=True)
class MessageStatus:
    message_id: str
    #: Its state altogether: ``in_hand`` or ``waiting`` if it is so in any queue; otherwise ``unrouted``, ``dead`` or ``set_aside`` if it
    #: is so in any; otherwise ``done``. ``unknown``: the box has no such message, and its id was not published lately.
    state: MessageState
    #: Its state in each queue that has it, or has kept it.
    queues: tuple[QueueStatus, ...] = ()
    #: The number of queues that had it and keep nothing of it: it is done there, or was deleted. If no queue has kept anything, the
    #: number isn't known: then it is 0, and the message is ``done``.
    forgotten: int = 0

    @property
    def is_final(self) -> bool:
        """Whether it stays so, unless an operator does something."""
        return self.state not in _OPEN

    @property
    def reason(self) -> str:
        """Why it has this state, in the queue where it has it; empty if it is done."""
        return next((queue.reason for queue in self.queues if queue.state is self.state), "")


def status_of(
    begin: Callable[[], AbstractContextManager[Transaction]], message_id: str, id_space: str | None, wait_s: float
) -> MessageStatus:
    """The state of a message; waits until it is final, for a limited time."""
    named = {"message_id": message_id, "id_space": id_space}
    until, pause_s = time.monotonic() + wait_s, _FIRST_PAUSE_S
    key: Any = None
    published, is_first = False, True
    while True:
        with begin() as transaction:
            if key is None:
                appears = not published and _found(transaction.rows("published_at", **named), message_id) is not None
                # The spool has no index by ids: it is read once, and again only when the id appears.
                key = _found(transaction.rows("message_key", **named), message_id) if appears or is_first else None
                published, is_first = published or appears, False
            status = _status(transaction, message_id, key, published=published)
        left_s = until - time.monotonic()
        if status.is_final or left_s <= 0:
            return status
        time.sleep(min(pause_s, left_s))
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


def _found(rows: Sequence[Any], message_id: str) -> Any | None:
    check_one_space(message_id, {row.id_space for row in rows})
    return next(iter(rows), None)


def _status(transaction: Transaction, message_id: str, key: Any | None, *, published: bool) -> MessageStatus:
    if key is None:
        # Known by its id alone: no queue has it any more.
        return MessageStatus(message_id, MessageState.DONE if published else MessageState.UNKNOWN)
    rows = transaction.rows("message_status", arrival_id=key.arrival_id, position=key.position)
    if not rows:
        return MessageStatus(message_id, MessageState.DONE)
    queues = tuple(
        QueueStatus(row.queue, row.group, _state(row.status, row.why), _reason(row.status, row.why), row.until, row.since,
                    row.attempt)
        for row in rows
    )  # fmt: skip
    forgotten = max(rows[0].destinations - sum(queue.queue is not None for queue in queues), 0)
    return MessageStatus(message_id, _altogether(queues), queues, forgotten)


def _altogether(queues: Sequence[QueueStatus]) -> MessageState:
    states = {queue.state for queue in queues}
    return next(state for state in _ORDER if state in states)


def within(found: MessageStatus, names: Collection[str]) -> MessageStatus:
    """The state as some queues alone tell it. A message that only others have is done if any keeps nothing of it, and otherwise unknown."""
    kept = tuple(one for one in found.queues if one.queue is None or one.queue in names)
    if len(kept) == len(found.queues):
        return found
    nowhere = MessageState.DONE if found.forgotten else MessageState.UNKNOWN
    return MessageStatus(found.message_id, _altogether(kept) if kept else nowhere, kept)


def _state(status: str, why: str | None) -> MessageState:
    match status:
        case "waiting":
            return MessageState.IN_HAND if why == "in_hand" else MessageState.WAITING
        case "to_route":
            return MessageState.WAITING
        case "done":
            return MessageState.DONE
        case "unrouted":
            return MessageState.UNROUTED
        case Disposition.DEAD.word:
            return MessageState.DEAD
    return MessageState.SET_ASIDE


def _reason(status: str, why: str | None) -> str:
    match status:
        case "waiting":
            return REASONS[why or ""]
        case "to_route":
            return _TO_ROUTE
        case "unrouted":
            return why or _NOBODY
        case "done":
            return ""
    return f"{status}: {why}"
