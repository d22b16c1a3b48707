"""Bulk operations: an action on many groups, or the requeue of many messages. Each group has its own transaction.

A group that has changed meanwhile is refused; the other groups are processed, and nothing is undone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Protocol, TypeVar

from seriatim.box.box import MessageBox
from seriatim.box.connection.access import Transaction
from seriatim.box.operators.actions import Operation, require_of, why_refused
from seriatim.box.operators.operator_log import Operator
from seriatim.box.operators.seen import seen_of
from seriatim.box.views.groups import GroupFilter, GroupView, groups_of
from seriatim.errors import ActionRefused, GroupChanged, Unavailable, UsageError
from seriatim.kernel.groups.states import GroupState
from seriatim.kernel.groups.verbs import BULK, RETRIED_IN, VERBS, Action
from seriatim.operations import groups
from seriatim.pipeline.text.counted import counted

__all__ = ["BULK", "Refused", "chosen", "each", "put_back", "sorted_out"]

_PAGE = 1_000
#: The most messages put back into one group in one transaction.
_BATCH = 1_000


class _InGroup(Protocol):
    """An item that is, or was, in a group of a queue."""

    @property
    def queue(self) -> str | None:
        """The queue's name."""

    @property
    def group(self) -> str | None:
        """The group's key."""


_Found = TypeVar("_Found", bound=_InGroup)
_Done = TypeVar("_Done")


@dataclass(frozen=True, slots=True)
class Refused:
    """A group for which an action was refused: its queue, its key, and the reason."""

    queue: str
    group: str
    why: str


def chosen(box: MessageBox, action: Action, where: GroupFilter, *, limit: int | None = None) -> list[GroupView]:
    """List the groups that match a filter and whose state allows the action; the first `limit` of them, or all.

    Raises:
        UsageError: the action isn't possible for many groups at once.
    """
    return sorted_out(box, action, where, limit=limit)[0]


def sorted_out(
    box: MessageBox, action: Action, where: GroupFilter, *, limit: int | None = None, others: int = 0
) -> tuple[list[GroupView], list[GroupView]]:
    """The groups that match a filter: those whose state allows the action, the first `limit` of them, or all; and at most `others` that
    don't.

    A group is read once, whichever it is.

    Raises:
        UsageError: the action isn't possible for many groups at once.
    """
    if action not in BULK:
        raise UsageError(f"cannot {action} many groups at once", remedy=f"one of {', '.join(BULK)}")
    states = RETRIED_IN if action is Action.RETRY else VERBS[action].states
    wanted = frozenset(GroupState) if where.states is None else where.states
    found: list[GroupView] = []
    left: list[GroupView] = []
    with box.access.transaction() as transaction:
        if fitting := wanted & states:
            after: tuple[str, str] | None = None
            most = _PAGE if limit is None else limit
            while True:
                page = groups_of(transaction, replace(where, state=fitting, after=after, limit=most))
                for view in page:
                    (found if view.allows(action) else left).append(view)
                if len(page) < most or (limit is not None and len(found) >= limit):
                    break
                after = (page[-1].queue, page[-1].group)
        if len(left) < others and (rest := wanted - states):
            left += groups_of(transaction, replace(where, state=rest, limit=others - len(left)))
    return found[:limit], left[:others]


def each(
    box: MessageBox, action: Action, views: Sequence[GroupView], *, at_once: bool = False, actor: str, reason: str
) -> Iterator[Operation | Refused]:
    """Perform an action on each group, one after another; yields a result or a refusal for each group.

    A group that has changed since it was seen is refused.

    `at_once`: for `close`: whether nothing leaves any more.

    Raises:
        UsageError: the actor or the reason is missing; nothing is done then.
    """
    Operator(actor, reason)
    for view in views:
        try:
            yield groups.act(
                box, action, view.queue, view.group, seen=seen_of(view), actor=actor, reason=reason, at_once=at_once
            )
        except GroupChanged as error:
            yield Refused(view.queue, view.group, why_refused(_refusal(box, action, view) or error))
        except (ActionRefused, Unavailable) as error:
            yield Refused(view.queue, view.group, why_refused(error))


def _refusal(box: MessageBox, action: Action, view: GroupView) -> ActionRefused | None:
    """Why the group wouldn't allow the action as it is now; None: it would."""
    try:
        require_of(groups.group_view(box, view.queue, view.group), action)
    except ActionRefused as error:
        return ActionRefused(error.what, remedy=error.remedy)
    return None


def put_back(
    box: MessageBox,
    found: Sequence[_Found],
    what: str,
    into_group: Callable[[Transaction, Sequence[_Found]], list[_Done]],
) -> Iterator[_Done | Refused]:
    """Put messages back into their groups; yields a result for each message, or a refusal for a group that can't take them.

    Args:
        box: the box.
        found: the messages; messages of one group are adjacent and in order.
        what: the word for a message in errors.
        into_group: puts messages of one group back, in a transaction; leaves out messages that are gone.
    """
    for (queue, group), of_group in groupby(found, key=lambda one: (one.queue, one.group)):
        messages = list(of_group)
        for begin in range(0, len(messages), _BATCH):
            some = messages[begin : begin + _BATCH]
            try:
                done = box.access.within(into_group, some)
            except (UsageError, Unavailable) as error:
                yield Refused(str(queue), str(group), f"{counted(len(some), what)}: {why_refused(error)}")
            else:
                yield from done
