"""Groups of a message box, for operators: views and actions.

Each action is one transaction, takes who does it and why, and is written to the operator log. One that doesn't fit the
state of the group is refused with the state and what is allowed.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from seriatim.box.box import MessageBox
from seriatim.box.connection.dsn import place_of
from seriatim.box.operators import actions
from seriatim.box.operators.actions import ActionRequest, Operation
from seriatim.box.postgres.translate import translated
from seriatim.box.views.group_standing import Head, Standing, standing_of
from seriatim.box.views.groups import GroupFilter, GroupView, group_of, groups_of
from seriatim.box.views.operations_done import Logged
from seriatim.errors import UsageError, shown
from seriatim.kernel.states import Action, GroupState
from seriatim.kernel.time import micros

__all__ = [
    "Action",
    "GroupFilter",
    "GroupState",
    "GroupView",
    "Head",
    "Logged",
    "Operation",
    "Standing",
    "abort",
    "act",
    "close",
    "group_filter",
    "group_view",
    "groups",
    "only_group",
    "reset",
    "resume",
    "retry",
    "skip_hole",
    "skip_message",
    "standing",
    "suspend",
]

_MOST_GROUPS = 100_000


def group_view(box: MessageBox, queue: str, group: str) -> GroupView:
    """A group as it stands.

    Raises:
        UsageError: the queue has never received a message of it, or there is no such queue.
    """
    with box.session() as tx, translated(_place(box)):
        return group_of(tx.transaction, queue, group)


def standing(box: MessageBox, queue: str, group: str) -> Standing:
    """How a group stands: what blocks it, how much waits behind that, what is allowed, and what helps.

    Raises:
        UsageError: the queue has never received a message of it, or there is no such queue.
    """
    with box.session() as tx, translated(_place(box)):
        return standing_of(tx.transaction, queue, group)


def groups(
    box: MessageBox,
    queue: str | None = None,
    *,
    state: GroupState | str | Iterable[GroupState | str] | None = None,
    key: str | None = None,
    older_than: float | str | None = None,
    error: str | None = None,
    after: tuple[str, str] | None = None,
    limit: int = 1000,
) -> list[GroupView]:
    """The groups of a box, by queue and key.

    Args:
        box: the box.
        queue: only those of this queue.
        state: only those that show this state, or one of these.
        key: only those whose key fits this pattern: ``*`` stands for any text, ``?`` for one character.
        older_than: only groups in their state for more than this many seconds (or ``"5m"``).
        error: only those where the reason for the stop has this text in it.
        after: only those behind this queue and key: the last ones of the call before.
        limit: the most rows.

    Raises:
        UsageError: no such state, or a limit or a period that can't be.
    """
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= _MOST_GROUPS:
        raise UsageError(f"cannot list {shown(limit)} groups", remedy=f"an integer from 1 to {_MOST_GROUPS:,}")
    chosen = group_filter(queue, state=state, key=key, older_than=older_than, error=error)
    with box.session() as tx, translated(_place(box)):
        return groups_of(tx.transaction, chosen, after, limit)


def group_filter(
    queue: str | None = None,
    *,
    state: GroupState | str | Iterable[GroupState | str] | None = None,
    key: str | None = None,
    older_than: float | str | None = None,
    error: str | None = None,
) -> GroupFilter:
    """Which groups, from the words of a caller; see `groups`.

    Raises:
        UsageError: no such state, or a period that can't be.
    """
    named = [state] if isinstance(state, str) else state
    for one in named or ():
        if one not in list(GroupState):
            raise UsageError(f"{shown(one)} is not a state of groups", remedy=f"one of {', '.join(GroupState)}")
    states = None if named is None else frozenset(GroupState(one) for one in named)
    age = None if older_than is None else timedelta(microseconds=micros(older_than))
    return GroupFilter(queue, key, states or None, age, error)


def only_group(box: MessageBox, group: str) -> str:
    """The queue that has a group of this key, where only one has.

    Raises:
        UsageError: none has, or several.
    """
    with box.session() as tx, translated(_place(box)):
        found = groups_of(tx.transaction, GroupFilter(), limit=_MOST_GROUPS, group=group)
    if len(found) != 1:
        queues = ", ".join(one.queue for one in found)
        raise UsageError(
            f"{'several queues have' if found else 'no queue has'} a group {group!r}",
            remedy=f"name the queue: {queues}"
            if found
            else "no message of this group has arrived; see seriatim groups",
        )
    return found[0].queue


def act(
    box: MessageBox,
    action: Action,
    queue: str,
    group: str,
    *,
    actor: str,
    reason: str,
    through: int | None = None,
    next: int | None = None,  # noqa: A002 -- the word of the design
    body: bytes | None = None,
) -> Operation:
    """Do one of the actions, by its name; see the function of that name for its arguments and errors."""
    return _act(box, ActionRequest(action, queue, group, actor, reason, through=through, following=next, body=body))


def suspend(box: MessageBox, queue: str, group: str, *, actor: str, reason: str) -> Operation:
    """Stop a group: nothing leaves, what arrives is taken in. A locked one stops at the end of the turn.

    Raises:
        UsageError: there is no such queue or group, or nobody or nothing is named as actor or reason.
        ActionRefused: the group is closed. So for all actions that don't fit the group's state.
        Unavailable: the transaction has to be repeated.
    """
    return _act(box, ActionRequest(Action.SUSPEND, queue, group, actor, reason))


def resume(box: MessageBox, queue: str, group: str, *, actor: str, reason: str) -> Operation:
    """Let a suspended group go on: late ones that it holds leave first, flagged."""
    return _act(box, ActionRequest(Action.RESUME, queue, group, actor, reason))


def retry(box: MessageBox, queue: str, group: str, *, body: bytes | None = None, actor: str, reason: str) -> Operation:
    """Let a faulted group go on with the message that failed, once more; or one that waits for its next attempt, now.

    Args:
        box: the box.
        queue: the queue's name.
        group: the group's key.
        body: what to put in the place of the message's body, which is kept; its properties stay. None: nothing.
        actor: who does it.
        reason: why.

    Raises:
        UsageError: a set failed, which can't be edited, or the body isn't what the message's type says.
    """
    return _act(box, ActionRequest(Action.RETRY, queue, group, actor, reason, body=body))


def skip_message(box: MessageBox, queue: str, group: str, *, actor: str, reason: str) -> Operation:
    """Set the message that blocks the group aside as a dead letter: the one that failed, or the late one that came."""
    return _act(box, ActionRequest(Action.SKIP_MESSAGE, queue, group, actor, reason))


def skip_hole(
    box: MessageBox, queue: str, group: str, *, through: int | None = None, actor: str, reason: str
) -> Operation:
    """Give up the missing numbers up to `through`, or all of the hole."""
    return _act(box, ActionRequest(Action.SKIP_HOLE, queue, group, actor, reason, through=through))


def reset(box: MessageBox, queue: str, group: str, *, next: int, actor: str, reason: str) -> Operation:  # noqa: A002 -- the word of the design
    """Let the group go on at another number: what it holds below is late, what is passed over counts as skipped."""
    return _act(box, ActionRequest(Action.RESET, queue, group, actor, reason, following=next))


def abort(box: MessageBox, queue: str, group: str, *, actor: str, reason: str) -> Operation:
    """Set all that the group holds, and all that is queued in it, aside for good."""
    return _act(box, ActionRequest(Action.ABORT, queue, group, actor, reason))


def close(box: MessageBox, queue: str, group: str, *, actor: str, reason: str) -> Operation:
    """End a group: what comes from now on is late, what it has stays and can be aborted."""
    return _act(box, ActionRequest(Action.CLOSE, queue, group, actor, reason))


def _act(box: MessageBox, asked: ActionRequest) -> Operation:
    with box.session() as tx, translated(_place(box)):
        return actions.act(tx.transaction, asked)


def _place(box: MessageBox) -> str:
    return place_of(box.dsn, box.schema)
