"""Groups of a message box, for operators: views and actions.

Each action is one transaction, takes an actor and a reason, and is written to the operator log. If the state of the group
doesn't allow the action, it is refused; the error names the state and the allowed actions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from seriatim.box.box import MessageBox
from seriatim.box.connection.access import Transaction
from seriatim.box.operators import actions
from seriatim.box.operators.actions import ActionRequest, Operation
from seriatim.box.operators.forget import forget as forget_group
from seriatim.box.operators.operator_log import Operator
from seriatim.box.operators.seen import seen_of
from seriatim.box.views.group_standing import Head, Processed, Standing, standing_of
from seriatim.box.views.groups import GroupFilter, GroupView, group_of, groups_of, new_group
from seriatim.box.views.listing import ErrorCount
from seriatim.box.views.open_places import OnWay, OpenPlace
from seriatim.box.views.operations_done import Logged
from seriatim.errors import UsageError
from seriatim.kernel.groups.states import STOPPED, GroupState
from seriatim.kernel.groups.verbs import Action
from seriatim.operations.listing import listed

__all__ = [
    "STOPPED",
    "Action",
    "ErrorCount",
    "GroupFilter",
    "GroupState",
    "GroupView",
    "Head",
    "Logged",
    "OnWay",
    "OpenPlace",
    "Operation",
    "Processed",
    "Standing",
    "abort",
    "act",
    "close",
    "count",
    "forget",
    "group_view",
    "groups",
    "groups_by_error",
    "named",
    "only_group",
    "reset",
    "restart",
    "resume",
    "retry",
    "seen_of",
    "skip_hole",
    "skip_message",
    "standing",
    "stopped",
    "suspend",
]

_MOST_GROUPS = 100_000


def group_view(box: MessageBox, queue: str, group: str) -> GroupView:
    """The present state of a group.

    Raises:
        UsageError: there is no such queue, or it never got a message of the group.
    """
    return box.access.within(group_of, queue, group)


def standing(box: MessageBox, queue: str, group: str) -> Standing:
    """Diagnose a group: the message that blocks it, the number of messages behind it, and the actions that help.

    Raises:
        UsageError: there is no such queue, or it never got a message of the group.
    """
    return box.access.within(standing_of, queue, group)


@listed(GroupFilter)
def groups(transaction: Transaction, chosen: GroupFilter) -> list[GroupView]:
    """List the groups of a box, by queue and key."""
    return groups_of(transaction, chosen)


@listed(GroupFilter, without=("state", "suspected"), state=STOPPED)
def stopped(transaction: Transaction, chosen: GroupFilter) -> list[GroupView]:
    """List the groups that stand still: suspended, faulted, timed out or waiting for a missing number.

    They hand nothing out until something happens.
    """
    return groups_of(transaction, chosen)


@listed(GroupFilter, without=("suspected", "after", "limit"), state=STOPPED, limit=_MOST_GROUPS)
def groups_by_error(transaction: Transaction, chosen: GroupFilter) -> list[ErrorCount]:
    """Count stopped groups by the class of the handler's error, and those that no handler stopped by state; most first.

    Counts up to 100,000 groups.
    """
    of: dict[str, list[GroupView]] = {}
    for view in groups_of(transaction, chosen):
        of.setdefault(_cause(view), []).append(view)
    counts = [_counted(cause, views) for cause, views in of.items()]
    return sorted(counts, key=lambda one: (-one.count, one.error))


def _cause(view: GroupView) -> str:
    has_failed = view.state is GroupState.FAULTED or view.tries_again
    return view.error.partition(": ")[0] if has_failed and view.error else str(view.state)


def _counted(cause: str, views: Sequence[GroupView]) -> ErrorCount:
    newest = max(views, key=lambda view: view.since.timestamp() if view.since else 0.0)
    text = newest.reason if cause in set(GroupState) else (newest.error or "").partition(": ")[2]
    return ErrorCount(cause, len(views), text or None, newest.since)


def count(box: MessageBox, queue: str | None = None, *, key: str | None = None) -> int:
    """Count the groups in all states; only those of a queue, or whose key matches a pattern."""
    with box.access.transaction() as transaction:
        return int(transaction.value("count_groups", **GroupFilter(queue, key=key).parameters()))


def only_group(box: MessageBox, group: str) -> str:
    """The only queue that has a group with this key.

    Raises:
        UsageError: no queue has such a group, or several queues have it.
    """
    return named(box, [group])[0].queue


def named(box: MessageBox, keys: Sequence[str], queue: str | None = None, *, begins: bool = False) -> list[GroupView]:
    """The groups with these keys, in that order: of a queue, or of the only queue that has a group with the key.

    `begins`: in a given queue also groups of which no message has come yet.

    Raises:
        UsageError: there is no such queue; it, or no queue, has a group with a key; or several queues have it.
    """
    if queue is not None:
        box.definitions().queue(queue)
    found = box.access.within(groups_of, GroupFilter(queue, limit=_MOST_GROUPS), keys)
    of: dict[str, list[GroupView]] = {}
    for view in found:
        of.setdefault(view.group, []).append(view)
    for key in keys:
        if begins and queue is not None and key not in of:
            of[key] = [new_group(queue, key)]
        if len(of.get(key, ())) != 1:
            raise _ambiguous(key, of.get(key, []), queue)
    return [of[key][0] for key in dict.fromkeys(keys)]


def _ambiguous(key: str, found: Sequence[GroupView], queue: str | None) -> UsageError:
    if found:
        queues = ", ".join(one.queue for one in found)
        return UsageError(f"several queues have a group {key!r}", remedy=f"name the queue: {queues}")
    has = "no queue has" if queue is None else f"queue {queue!r} does not have"
    return UsageError(
        f"{has} a group {key!r}",
        remedy="no message of this group has arrived; see seriatim groups --all; suspend and reset begin one with --queue",
    )


def act(
    box: MessageBox,
    action: Action,
    queue: str,
    group: str,
    *,
    actor: str,
    reason: str,
    seen: str | None = None,
    **given: Any,
) -> Operation:
    """Perform an action, by its name.

    Args:
        box: the box.
        action: the action.
        queue: the queue's name.
        group: the group's key.
        actor: the operator's name.
        reason: the reason.
        seen: what the operator has seen of the group, as `seen_of` gives it of a view; None: they take it as it is.
        **given: what the function with the action's name takes besides.

    Raises:
        UsageError: the action doesn't take what is given; or as the function with its name.
        GroupChanged: the group isn't as it was seen; nothing was done.
    """
    asked = ActionRequest(action, queue, group, actor, reason, given, seen)
    return box.access.within(actions.act, asked)


def suspend(box: MessageBox, queue: str, group: str, *, actor: str, reason: str) -> Operation:
    """Suspend a group: it accepts messages, but hands none out. A locked group stops at the end of its turn.

    The group can be one of which no message has come yet.

    Raises:
        UsageError: there is no such queue, or the actor or the reason is missing.
        ActionRefused: the group is closed. Each action raises it in a state in which it isn't allowed.
        Unavailable: the transaction has to be repeated.
    """
    return act(box, Action.SUSPEND, queue, group, actor=actor, reason=reason)


def resume(box: MessageBox, queue: str, group: str, *, actor: str, reason: str) -> Operation:
    """Resume a suspended group. Its held late messages leave first, flagged as late."""
    return act(box, Action.RESUME, queue, group, actor=actor, reason=reason)


def retry(
    box: MessageBox,
    queue: str,
    group: str,
    *,
    body: bytes | None = None,
    message: str | None = None,
    actor: str,
    reason: str,
) -> Operation:
    """Retry the failed message of a faulted group, or start the next attempt of a waiting group now. A clock that began
    while the database's clock was ahead begins now.

    Args:
        box: the box.
        queue: the queue's name.
        group: the group's key.
        body: a new body for the message. The box keeps the original body; the properties stay. None: no change.
        message: the id of the message, in an `Unordered` queue with a gate, where messages stop by themselves.
        actor: the operator's name.
        reason: the reason.

    Raises:
        UsageError: a new body is given but a set of several messages failed, or the body doesn't fit the message's type.
    """
    return act(box, Action.RETRY, queue, group, actor=actor, reason=reason, body=body, message=message)


def skip_message(
    box: MessageBox, queue: str, group: str, *, message: str | None = None, actor: str, reason: str
) -> Operation:
    """Make a message a dead letter: the one that stopped the group, or a waiting one out of the middle.

    The number of a held message that is taken out stays taken; it is passed with its run, and counts as skipped then. The
    number of a released one counts as skipped at once, so that it is late when it comes again.

    Args:
        box: the box.
        queue: the queue's name.
        group: the group's key.
        message: the id of a waiting message. None: the message that stopped the group, that is, the failed one, or a late one. In an
            `Unordered` queue with a gate the id is needed.
        actor: the operator's name.
        reason: the reason.

    Raises:
        ActionRefused: the group is locked; without a message: no message has stopped it; with one: it doesn't wait there.
    """
    return act(box, Action.SKIP_MESSAGE, queue, group, actor=actor, reason=reason, message=message)


def skip_hole(
    box: MessageBox, queue: str, group: str, *, through: int | None = None, actor: str, reason: str
) -> Operation:
    """Skip the missing numbers up to `through`; None: the whole hole."""
    return act(box, Action.SKIP_HOLE, queue, group, actor=actor, reason=reason, through=through)


def reset(box: MessageBox, queue: str, group: str, *, next: int, actor: str, reason: str) -> Operation:  # noqa: A002 -- the word of the design
    """Set the next number of the group. Held messages below it become late; numbers that are passed over count as skipped."""
    return act(box, Action.RESET, queue, group, actor=actor, reason=reason, next=next)


def restart(box: MessageBox, queue: str, group: str, *, actor: str, reason: str) -> Operation:
    """Begin a group anew, in its next incarnation, from the policy's `start`: its producer has begun anew.

    The messages that counted come back from those that were set aside, in order of arrival, and then what the group holds.
    Released messages are handed out before, and ordinals go on.

    Raises:
        ActionRefused: the group is locked or closed, or has no numbers.
    """
    return act(box, Action.RESTART, queue, group, actor=actor, reason=reason)


def abort(box: MessageBox, queue: str, group: str, *, actor: str, reason: str) -> Operation:
    """Make all held and queued messages of the group dead letters."""
    return act(box, Action.ABORT, queue, group, actor=actor, reason=reason)


def close(box: MessageBox, queue: str, group: str, *, at_once: bool = False, actor: str, reason: str) -> Operation:
    """Close a group: new messages are late, except missing numbers below the highest one held.

    What is released leaves, and what is held goes on by the usual rules and clocks; the group is closed when it holds nothing.

    Args:
        box: the box.
        queue: the queue's name.
        group: the group's key.
        at_once: close it now: nothing leaves any more, and its present messages can only be aborted.
        actor: the operator's name.
        reason: the reason.
    """
    return act(box, Action.CLOSE, queue, group, actor=actor, reason=reason, at_once=at_once)


def forget(box: MessageBox, queue: str, group: str, *, actor: str = "application", reason: str = "on request") -> int:
    """Forget a group without messages: its next message begins it anew, in the next incarnation.

    Args:
        box: the box.
        queue: the queue's name.
        group: the group's key.
        actor: the operator's name, for the operator log.
        reason: the reason, for the operator log.

    Returns:
        the number of the new incarnation.

    Raises:
        UsageError: there is no such queue or group, or an actor or reason is missing or too long.
        ActionRefused: the group has messages, its instance runs, or it is suspended.
        Unavailable: another session keeps its lock.
    """
    by = Operator(actor, reason)
    with box.access.transaction() as transaction:
        found = transaction.definitions().queue(queue)
        return forget_group(transaction, found, group, by)
