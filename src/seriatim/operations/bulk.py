"""Bulk operations: an action on many groups, or the requeue of many messages; each group in a transaction of its own.

A group that has changed meanwhile refuses for itself, and the others go on; what is done stays done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Protocol, TypeVar

from seriatim.box.box import MessageBox
from seriatim.box.connection.dsn import place_of
from seriatim.box.operators.actions import Operation
from seriatim.box.operators.operator_log import Operator
from seriatim.box.postgres.translate import translated
from seriatim.box.session import Session
from seriatim.box.views.groups import TRIED_AGAIN, GroupFilter, GroupView, groups_of
from seriatim.errors import ActionRefused, Unavailable, UsageError
from seriatim.kernel.states import ALLOWED, Action
from seriatim.operations import groups

__all__ = ["BULK", "Refused", "chosen", "each", "put_back"]

#: What may be done to many groups at once: what needs no number of the single group.
BULK = (Action.SUSPEND, Action.RESUME, Action.RETRY, Action.SKIP_MESSAGE, Action.SKIP_HOLE, Action.ABORT, Action.CLOSE)
_PAGE = 1_000
#: The most messages put back into one group in one transaction.
_BATCH = 1_000


class _InGroup(Protocol):
    """What lies in a group of a queue, or did."""

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
    """A group to which an action could not be done: its queue, its key, and why not."""

    queue: str
    group: str
    why: str


def chosen(box: MessageBox, action: Action, where: GroupFilter) -> list[GroupView]:
    """The groups that an action would be done to: those that a filter names and that it fits.

    Raises:
        UsageError: the action can't be done to many groups at once.
    """
    if action not in BULK:
        raise UsageError(f"cannot {action} many groups at once", remedy=f"one of {', '.join(BULK)}")
    states = ALLOWED[action] | (TRIED_AGAIN if action is Action.RETRY else frozenset())
    fitting = states if where.states is None else where.states & states
    if not fitting:
        return []
    found: list[GroupView] = []
    after: tuple[str, str] | None = None
    with box.session() as tx, translated(place_of(box.dsn, box.schema)):
        while True:
            page = groups_of(tx.transaction, replace(where, states=fitting), after, _PAGE)
            found += [view for view in page if view.allows(action)]
            if len(page) < _PAGE:
                return found
            after = (page[-1].queue, page[-1].group)


def each(
    box: MessageBox, action: Action, views: Sequence[GroupView], *, actor: str, reason: str
) -> Iterator[Operation | Refused]:
    """Do an action to each of these groups, one after another, and say what came of it.

    Raises:
        UsageError: nobody or nothing is named as actor or reason; before anything is done.
    """
    Operator(actor, reason)
    for view in views:
        try:
            yield groups.act(box, action, view.queue, view.group, actor=actor, reason=reason)
        except (ActionRefused, Unavailable) as error:
            yield Refused(view.queue, view.group, _why(error))


def put_back(
    box: MessageBox,
    found: Sequence[_Found],
    what: str,
    into_group: Callable[[Session, Sequence[_Found]], list[_Done]],
) -> Iterator[_Done | Refused]:
    """Put messages back into their groups, and say what came of each; of a group that can't take them, why not.

    Args:
        box: the box.
        found: which, those of a group in their order and one after another.
        what: the word for them.
        into_group: puts some of one group back, in a session; what isn't there any more is left out.
    """
    for (queue, group), of_group in groupby(found, key=lambda one: (one.queue, one.group)):
        messages = list(of_group)
        for begin in range(0, len(messages), _BATCH):
            some = messages[begin : begin + _BATCH]
            try:
                with box.session() as tx, translated(place_of(box.dsn, box.schema)):
                    done = into_group(tx, some)
            except (UsageError, Unavailable) as error:
                yield Refused(str(queue), str(group), f"{len(some):,} {what}: {_why(error)}")
            else:
                yield from done


def _why(error: UsageError | Unavailable) -> str:
    return f"{error.what}{f' ({error.remedy})' if error.remedy else ''}"
