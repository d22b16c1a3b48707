"""Bulk operations: an action on many groups that is kept in the box, and goes on when the process that began it ends.

What was seen of each group is noted first; a group that has changed since is left out. Whoever begins the operation works on it. Where that
process ends, `seriatim serve` and workers go on with it. Each group is acted on once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from threading import Event

from seriatim.box.box import MessageBox
from seriatim.box.connection.access import Transaction
from seriatim.box.operators import bulk_operations as doing
from seriatim.box.operators.bulk_operations import PORTION, Portion
from seriatim.box.operators.operator_log import Operator
from seriatim.box.views.bulk_operations import (
    RESULTS,
    BulkFilter,
    BulkGroup,
    BulkGroupFilter,
    BulkOperation,
    bulk_operation_of,
    bulk_operations_of,
)
from seriatim.box.views.groups import GroupFilter, GroupView
from seriatim.errors import Unavailable, UsageError
from seriatim.kernel.groups.verbs import Action
from seriatim.operations.bulk import chosen
from seriatim.operations.listing import listed

__all__ = [
    "AT_ONCE",
    "PORTION",
    "RESULTS",
    "BulkGroup",
    "BulkOperation",
    "Portion",
    "begin",
    "bulk_groups",
    "bulk_operation",
    "bulk_operations",
    "cancel",
    "follow",
    "gather",
    "gather_chosen",
    "work",
    "work_for",
]

#: The most groups that are acted on at once; more are a bulk operation.
AT_ONCE = 1_000
#: Seconds between two looks at an operation on which another process works, and after which a portion is tried again.
_LOOK_S = 0.5
#: How often a portion is tried again before the reason is reported.
_TRIES = 10


def gather(
    box: MessageBox,
    action: Action,
    views: Sequence[GroupView],
    *,
    chosen_by: Mapping[str, str],
    at_once: bool = False,
    actor: str,
    reason: str,
) -> BulkOperation:
    """Note an operation on groups as they were seen. Nothing is done before it is begun.

    Args:
        box: the box.
        action: the action.
        views: the groups.
        chosen_by: what they were chosen by, for people.
        at_once: for `close`: whether nothing leaves any more.
        actor: the operator's name.
        reason: the reason.

    Raises:
        UsageError: there is no group, or the actor or the reason is missing.
        EnvironmentProblem: the role may not operate on one of the queues.
    """
    by = Operator(actor, reason)
    with box.access.transaction() as transaction:
        number = doing.gather(transaction, action, views, by, chosen_by=chosen_by, at_once=at_once)
        return bulk_operation_of(transaction, number)


def gather_chosen(
    box: MessageBox, action: Action, where: GroupFilter, *, chosen_by: Mapping[str, str], actor: str, reason: str
) -> BulkOperation:
    """Note an operation on the groups that match a filter and whose state allows the action; see `gather`."""
    Operator(actor, reason)
    return gather(box, action, chosen(box, action, where), chosen_by=chosen_by, actor=actor, reason=reason)


def begin(box: MessageBox, bulk_id: int) -> BulkOperation:
    """Begin an operation; callers of `work` and `follow` do it, and so do `seriatim serve` and workers.

    Raises:
        UsageError: there is none with this number.
        ActionRefused: it was begun already, or is over.
        EnvironmentProblem: the role may not operate on one of its queues.
    """
    return box.access.within(doing.begin, bulk_id)


def cancel(box: MessageBox, bulk_id: int, *, actor: str, reason: str) -> BulkOperation:
    """Cancel an operation: what is done stays done, and nothing more is. Waits for the portion that is being done.

    Raises:
        UsageError: there is none with this number, or the actor or the reason is missing.
        ActionRefused: it is over.
        EnvironmentProblem: the role may not operate on one of its queues.
    """
    return box.access.within(doing.cancel, bulk_id, Operator(actor, reason))


def work(box: MessageBox, bulk_id: int | None = None) -> Portion | None:
    """Do the next portion of an operation, or of the one that has waited longest, in one transaction.

    Returns:
        None: nothing is to be done, another process is at it, or the role may not operate on its queues.

    Raises:
        EnvironmentProblem: the role may not operate on any queue.
        Unavailable: nothing was done: the transaction has to be repeated.
    """
    return doing.work(box.access, bulk_id)


def follow(box: MessageBox, bulk_id: int, *, ends: Callable[[], bool] = lambda: False) -> Iterator[BulkOperation]:
    """Work on an operation until it is over, or look on while another process does; yields it after each step.

    Args:
        box: the box.
        bulk_id: its number.
        ends: is asked after each step; True: go no further. The operation isn't over then.

    Raises:
        UsageError: there is none with this number, or it wasn't begun.
        EnvironmentProblem: the role may not operate on its queues.
        Unavailable: a portion could not be done, several times.
    """
    pause, failed = Event(), 0
    found = bulk_operation(box, bulk_id)
    if found.state == "gathered":
        raise UsageError(f"bulk operation {bulk_id} isn't begun")
    while True:
        yield found
        if found.ended_at is not None or ends():
            return
        try:
            done = work(box, bulk_id)
        except Unavailable:
            failed += 1
            if failed == _TRIES:
                raise
            done = None
        else:
            failed = 0
        if done is None:
            pause.wait(_LOOK_S)
        found = bulk_operation(box, bulk_id)


def work_for(box: MessageBox, seconds: float, ends: Callable[[], bool] = lambda: False) -> bool:
    """Do portions of any operations for so long; answers whether more may be left to do now. Errors are those of `work`."""
    return doing.work_for(box.access, seconds, ends)


@listed(BulkFilter)
def bulk_operations(transaction: Transaction, chosen: BulkFilter) -> list[BulkOperation]:
    """List bulk operations, newest first: what each does, how far it is, and who asked for it."""
    return bulk_operations_of(transaction, chosen)


def bulk_operation(box: MessageBox, bulk_id: int) -> BulkOperation:
    """One operation.

    Raises:
        UsageError: there is none with this number.
    """
    return box.access.within(bulk_operation_of, bulk_id)


@listed(BulkGroupFilter)
def bulk_groups(transaction: Transaction, chosen: BulkGroupFilter) -> list[BulkGroup]:
    """List the groups of an operation, by the number of the queue and by key."""
    bulk_operation_of(transaction, chosen.bulk_id)
    return transaction.rows("bulk_groups", BulkGroup, **chosen.parameters())
