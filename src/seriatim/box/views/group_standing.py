"""Diagnose one group: the message that blocks it, the backlog, the actions that help. Reads without locks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import assert_never

from seriatim.box.connection.access import Transaction
from seriatim.box.definitions.known import read_definitions
from seriatim.box.views.groups import GroupView, group_of
from seriatim.box.views.operations_done import Logged, logged
from seriatim.kernel.states import Action, GroupState

__all__ = ["Head", "Standing", "standing_of"]

#: So many entries of the operator log are shown.
_LOGGED = 10


@dataclass(frozen=True, slots=True)
class Head:
    """A message at the head of a group.

    Args:
        message_id: its id.
        type: its type.
        status: ``"queued"``, ``"held"`` or ``"arrived"``.
        sequence: its position in its group, as its producer numbered it.
        ordinal: its position among the released messages of the group; None before it is released.
        late: whether it is out of order.
        attempt: the number of times it was handed out, as far as the box knows.
        visible_at: the earliest time at which it is handed out.
        received_at: when it was published.
        entry_id: its number in the queue.
        failed: whether its handler failed at it last.
    """

    message_id: str
    type: str
    status: str
    sequence: int | None
    ordinal: int | None
    late: bool
    attempt: int
    visible_at: datetime | None
    received_at: datetime
    entry_id: int
    failed: bool


@dataclass(frozen=True, slots=True)
class Standing:
    """The diagnosis of a group.

    Args:
        view: its state and counts.
        why: the reason why it waits, in words.
        blocks: the message that blocks it, if a message does.
        following: the message that is processed next, when nothing blocks the group any more.
        behind: the number of waiting messages without the blocking message.
        allowed: the actions that are allowed now.
        helps: the actions that let it go on, best first.
        operations: the operators' newest actions on it, newest first.
    """

    view: GroupView
    why: str
    blocks: Head | None
    following: Head | None
    behind: int
    allowed: tuple[Action, ...]
    helps: tuple[Action, ...]
    operations: tuple[Logged, ...] = field(default=())


def standing_of(transaction: Transaction, queue: str, group: str) -> Standing:
    """Diagnose a group.

    Raises:
        UsageError: there is no such queue, or it never got a message of the group.
    """
    found = read_definitions(transaction).queue(queue)
    view = group_of(transaction, queue, group)
    parameters = {"queue_id": found.queue_id, "group_key": group}
    heads = transaction.rows("group_heads", Head, **parameters)
    blocks = _blocking(view, heads)
    off = "" if found.enabled else f"; and the queue is off: seriatim queue on {queue}"
    following = next((head for head in heads if head is not blocks and not head.late), None)
    return Standing(
        view,
        _why(view, following) + off,
        blocks,
        following,
        view.waiting - (blocks is not None),
        tuple(action for action in Action if view.allows(action)),
        ((Action.RETRY,) if view.tries_again else ()) + _helping(view, blocks),
        tuple(logged(transaction, queue=queue, group=group, limit=_LOGGED)),
    )


def _blocking(view: GroupView, heads: Sequence[Head]) -> Head | None:
    if view.state is GroupState.FAULTED:
        queued = [head for head in heads if head.status == "queued"]
        return next((head for head in queued if head.failed), queued[0] if queued else None)
    if view.state is GroupState.SUSPENDED and view.suspended_by is None:
        return next((head for head in heads if head.status == "held" and head.late), None)
    return None


def _why(view: GroupView, following: Head | None) -> str:
    if view.tries_again and view.retry_at is not None:
        return f"the handler failed, and tries it again at {_moment(view.retry_at)}: {view.error}"
    return _what_stops(view, following)


def _what_stops(view: GroupView, following: Head | None) -> str:
    match view.state:
        case GroupState.CLOSED:
            return "it is closed: what it has stays, and what comes is late"
        case GroupState.SUSPENDED:
            said = f"{view.suspended_by} suspended it: {view.suspended_because}"
            return f"suspended by {view.suspended_because}" if view.suspended_by is None else said
        case GroupState.FAULTED:
            return f"the handler failed for good: {view.error}" if view.error else "the handler failed for good"
        case GroupState.LOCKED:
            return _who_has(view)
        case GroupState.TIMED_OUT | GroupState.WAITING:
            missing = f"{view.next}" if view.next == view.hole_through else f"{view.next}..{view.hole_through}"
            over = ", and its time is over" if view.state is GroupState.TIMED_OUT else ""
            return f"{missing} is missing{over}"
        case GroupState.READY:
            return _what_comes(view, following)
    assert_never(view.state)


def _who_has(view: GroupView) -> str:
    if view.leased_by is None or view.leased_until is None:
        return f"process {view.locked_by} of the database works on it"
    return f"the worker {view.leased_by} works on it, in a lease until {_moment(view.leased_until)}"


def _moment(at: datetime) -> str:
    return at.astimezone().isoformat(" ", "seconds")


def _what_comes(view: GroupView, following: Head | None) -> str:
    if following is None:
        return "nothing waits"
    if following.visible_at is not None and view.due_at is not None:
        return "its next message may not be seen yet"
    if following.status == "held":
        return "what it has waits to be complete"
    return "the next one who receives gets it"


def _helping(view: GroupView, blocks: Head | None) -> tuple[Action, ...]:
    match view.state:
        case GroupState.CLOSED:
            return (Action.ABORT,) if view.waiting else ()
        case GroupState.SUSPENDED:
            return (Action.RESUME, Action.SKIP_MESSAGE) if blocks else (Action.RESUME,)
        case GroupState.FAULTED:
            return (Action.RETRY, Action.SKIP_MESSAGE)
        case GroupState.TIMED_OUT | GroupState.WAITING:
            return (Action.SKIP_HOLE,)
        case GroupState.LOCKED | GroupState.READY:
            return ()
    assert_never(view.state)
