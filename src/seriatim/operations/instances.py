"""Instances of a message box, for operators: views and actions.

Each action is one transaction, takes who does it and why, and is written to the operator log.
"""

from __future__ import annotations

from seriatim.box.box import MessageBox
from seriatim.box.connection.dsn import place_of
from seriatim.box.operators import instance_actions
from seriatim.box.postgres.translate import translated
from seriatim.box.views.instances import InstanceStatus, InstanceView, instance_of, instances_of
from seriatim.errors import UsageError, shown

__all__ = ["InstanceStatus", "InstanceView", "instance_view", "instances", "resume", "suspend", "terminate"]

_MOST_INSTANCES = 100_000
_LAST_ID = 2**63 - 1


def instance_view(box: MessageBox, instance_id: int) -> InstanceView:
    """An instance as it stands.

    Raises:
        UsageError: there is none: it never was, or it has ended.
    """
    _checked(instance_id)
    with box.session() as tx, translated(_place(box)):
        return instance_of(tx.transaction, instance_id)


def instances(
    box: MessageBox,
    queue: str | None = None,
    *,
    group: str | None = None,
    status: InstanceStatus | str | None = None,
    after: int = 0,
    limit: int = 1000,
) -> list[InstanceView]:
    """The instances of a box, by their numbers; those that have ended are gone.

    Args:
        box: the box.
        queue: only those of this queue.
        group: only that of this group.
        status: only those that are ``running`` or ``suspended``.
        after: only those behind this number: the last one of the call before.
        limit: the most rows.

    Raises:
        UsageError: no such queue or status, or a limit that can't be.
    """
    if queue is not None:
        box.definitions().queue(queue)
    if status is not None and status not in list(InstanceStatus):
        raise UsageError(f"{shown(status)} is not a status of instances", remedy=f"one of {', '.join(InstanceStatus)}")
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= _MOST_INSTANCES:
        raise UsageError(f"cannot list {shown(limit)} instances", remedy=f"an integer from 1 to {_MOST_INSTANCES:,}")
    wanted = None if status is None else InstanceStatus(status)
    with box.session() as tx, translated(_place(box)):
        return instances_of(tx.transaction, queue=queue, group=group, status=wanted, after=after, limit=limit)


def suspend(box: MessageBox, instance_id: int, *, actor: str, reason: str) -> InstanceView:
    """Let its messages wait, by suspending its group; a message that somebody works on is finished.

    Raises:
        UsageError: there is no such instance, or nobody or nothing is named as actor or reason.
        ActionRefused: its group is closed. So for all actions that don't fit.
        Unavailable: the transaction has to be repeated.
    """
    _checked(instance_id)
    with box.session() as tx, translated(_place(box)):
        return instance_actions.suspend(tx.transaction, instance_id, actor, reason)


def resume(box: MessageBox, instance_id: int, *, actor: str, reason: str) -> InstanceView:
    """Let its messages go on. Errors as of `suspend`; one that isn't suspended refuses it."""
    _checked(instance_id)
    with box.session() as tx, translated(_place(box)):
        return instance_actions.resume(tx.transaction, instance_id, actor, reason)


def terminate(box: MessageBox, instance_id: int, *, actor: str, reason: str) -> InstanceView:
    """End it. The starting subscriptions decide again about waiting messages of its group; messages led to it by a value are dead.

    A suspended one is resumed for that.

    Returns:
        what it was.

    Raises:
        UsageError: there is no such instance, or nobody or nothing is named as actor or reason.
        Unavailable: somebody works on a message of it. Suspend it first.
    """
    _checked(instance_id)
    with box.session() as tx, translated(_place(box)):
        return instance_actions.terminate(tx.transaction, instance_id, actor, reason)


def _checked(instance_id: object) -> None:
    if isinstance(instance_id, bool) or not isinstance(instance_id, int) or not 0 < instance_id <= _LAST_ID:
        raise UsageError(f"{shown(instance_id)} is not the number of an instance", remedy="a whole number from 1")


def _place(box: MessageBox) -> str:
    return place_of(box.dsn, box.schema)
