"""What operators see of the groups of a message box, and do to them.

Each action is one transaction, takes who does it and why, and is written to the operator log. One that doesn't fit the
state of the group is refused with the state and what is allowed.
"""

from __future__ import annotations

from seriatim.box import actions
from seriatim.box.actions import Asked, Operation
from seriatim.box.box import MessageBox
from seriatim.box.dsn import place_of
from seriatim.box.groups import GroupView, group_of, groups_of
from seriatim.box.translate import translated
from seriatim.errors import UsageError
from seriatim.kernel.states import Action, GroupState

__all__ = [
    "GroupView",
    "Operation",
    "abort",
    "close",
    "group_view",
    "groups",
    "reset",
    "resume",
    "skip_hole",
    "skip_message",
    "suspend",
]

_MOST_GROUPS = 100_000


def group_view(box: MessageBox, queue: str, group: str) -> GroupView:
    """A group as it stands.

    Raises:
        UsageError: the queue has never received a message of it, or there is no such queue.
    """
    with box.session() as tx, translated(_place(box)):
        return group_of(tx.connection, box.schema, queue, group)


def groups(
    box: MessageBox,
    queue: str | None = None,
    *,
    state: GroupState | str | None = None,
    after: tuple[str, str] | None = None,
    limit: int = 1000,
) -> list[GroupView]:
    """The groups of a box, by queue and key.

    Args:
        box: the box.
        queue: only those of this queue.
        state: only those that show this state.
        after: only those behind this queue and key: the last ones of the call before.
        limit: at most so many.

    Raises:
        UsageError: no such state, or a limit that can't be.
    """
    if state is not None and state not in list(GroupState):
        raise UsageError(f"{state!r} is not the state of a group", remedy=f"one of {', '.join(GroupState)}")
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= _MOST_GROUPS:
        raise UsageError(f"{limit!r} groups can't be listed", remedy=f"an integer from 1 to {_MOST_GROUPS:,}")
    shown = None if state is None else GroupState(state)
    with box.session() as tx, translated(_place(box)):
        return groups_of(tx.connection, box.schema, queue, shown, after, limit)


def suspend(box: MessageBox, queue: str, group: str, *, actor: str, reason: str) -> Operation:
    """Stop a group: nothing leaves, what arrives is taken in. A locked one stops at the end of the turn.

    Raises:
        UsageError: there is no such queue or group, or nobody or nothing is named as actor or reason.
        ActionRefused: the group is closed. So for all actions that don't fit the group's state.
        Unavailable: the transaction has to be repeated.
    """
    return _act(box, Asked(Action.SUSPEND, queue, group, actor, reason))


def resume(box: MessageBox, queue: str, group: str, *, actor: str, reason: str) -> Operation:
    """Let a suspended group go on: late ones that it holds leave first, flagged."""
    return _act(box, Asked(Action.RESUME, queue, group, actor, reason))


def skip_message(box: MessageBox, queue: str, group: str, *, actor: str, reason: str) -> Operation:
    """Set the late message that suspended the group aside for good."""
    return _act(box, Asked(Action.SKIP_MESSAGE, queue, group, actor, reason))


def skip_hole(
    box: MessageBox, queue: str, group: str, *, through: int | None = None, actor: str, reason: str
) -> Operation:
    """Give up the missing numbers up to `through`, or all of the hole."""
    return _act(box, Asked(Action.SKIP_HOLE, queue, group, actor, reason, through=through))


def reset(box: MessageBox, queue: str, group: str, *, next: int, actor: str, reason: str) -> Operation:  # noqa: A002 -- the word of the design
    """Let the group go on at another number: what it holds below is late, what is passed over counts as skipped."""
    return _act(box, Asked(Action.RESET, queue, group, actor, reason, following=next))


def abort(box: MessageBox, queue: str, group: str, *, actor: str, reason: str) -> Operation:
    """Set all that the group holds, and all that is queued in it, aside for good."""
    return _act(box, Asked(Action.ABORT, queue, group, actor, reason))


def close(box: MessageBox, queue: str, group: str, *, actor: str, reason: str) -> Operation:
    """End a group: what comes from now on is late, what it has stays and can be aborted."""
    return _act(box, Asked(Action.CLOSE, queue, group, actor, reason))


def _act(box: MessageBox, asked: Asked) -> Operation:
    with box.session() as tx, translated(_place(box)):
        return actions.act(tx.connection, box.schema, asked)


def _place(box: MessageBox) -> str:
    return place_of(box.dsn, box.schema)
