"""Instances of a message box, for operators: views and actions.

Each action is one transaction, takes an actor and a reason, and is written to the operator log.
"""

from __future__ import annotations

from seriatim.box.box import MessageBox
from seriatim.box.connection.access import Transaction
from seriatim.box.operators import instance_actions
from seriatim.box.views.instances import InstanceFilter, InstanceStatus, InstanceView, instance_of, instances_of
from seriatim.errors import UsageError, is_whole, shown
from seriatim.operations.listing import listed

__all__ = ["InstanceStatus", "InstanceView", "instance_view", "instances", "resume", "suspend", "terminate"]

_LAST_ID = 2**63 - 1


def instance_view(box: MessageBox, instance_id: int) -> InstanceView:
    """The present state of an instance.

    Raises:
        UsageError: there is no such instance, or it has ended.
    """
    _checked(instance_id)
    return box.access.within(instance_of, instance_id)


@listed(InstanceFilter)
def instances(transaction: Transaction, chosen: InstanceFilter) -> list[InstanceView]:
    """List the running and suspended instances, ordered by number."""
    return instances_of(transaction, chosen)


def suspend(box: MessageBox, instance_id: int, *, actor: str, reason: str) -> InstanceView:
    """Suspend the instance's group, so that its messages wait. A message in hand is finished first.

    Raises:
        UsageError: there is no such instance, or the actor or the reason is missing.
        ActionRefused: its group is closed. Each action raises it in a state in which it isn't allowed.
        Unavailable: the transaction has to be repeated.
    """
    _checked(instance_id)
    return box.access.within(instance_actions.suspend, instance_id, actor, reason)


def resume(box: MessageBox, instance_id: int, *, actor: str, reason: str) -> InstanceView:
    """Resume the instance's group. The errors are the same as for `suspend`; an instance that isn't suspended is refused."""
    _checked(instance_id)
    return box.access.within(instance_actions.resume, instance_id, actor, reason)


def terminate(box: MessageBox, instance_id: int, *, actor: str, reason: str) -> InstanceView:
    """End the instance; a suspended group is resumed for that.

    Waiting messages of its group are matched with the starting subscriptions again. Messages led to the instance by an
    added value become dead letters.

    Returns:
        the instance, as it was before.

    Raises:
        UsageError: there is no such instance, or the actor or the reason is missing.
        Unavailable: a receiver has a message of the instance in hand. Suspend the instance first.
    """
    _checked(instance_id)
    return box.access.within(instance_actions.terminate, instance_id, actor, reason)


def _checked(instance_id: object) -> None:
    if not is_whole(instance_id, 1, _LAST_ID):
        raise UsageError(f"{shown(instance_id)} is not the number of an instance", remedy="a whole number from 1")
