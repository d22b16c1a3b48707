"""An operator's action on an instance: suspend or resume its group, or terminate it."""

from __future__ import annotations

from seriatim.box.connection.access import Transaction
from seriatim.box.definitions.known import read_definitions
from seriatim.box.operators.actions import ActionRequest, act
from seriatim.box.operators.operator_log import Operator, log
from seriatim.box.turns.turns import Turns
from seriatim.box.views.instances import InstanceStatus, InstanceView, instance_of
from seriatim.errors import Unavailable
from seriatim.kernel.groups.verbs import Action

#: A handler may take as long as it likes, and nobody waits for it.
_BRIEFLY_MS = 250


def suspend(transaction: Transaction, instance_id: int, actor: str, reason: str) -> InstanceView:
    """Suspend its group, so that its messages wait; a message in a worker's hand is completed."""
    return _of_group(transaction, Action.SUSPEND, instance_id, actor, reason)


def resume(transaction: Transaction, instance_id: int, actor: str, reason: str) -> InstanceView:
    return _of_group(transaction, Action.RESUME, instance_id, actor, reason)


def terminate(transaction: Transaction, instance_id: int, actor: str, reason: str) -> InstanceView:
    """End an instance, also a suspended one. Its group's messages follow starting subscriptions again; those led by a value are dead."""
    found = instance_of(transaction, instance_id)
    asked = ActionRequest(Action.RESUME, found.queue, found.group, actor, reason)
    queue = read_definitions(transaction).queue(found.queue)
    if not Turns(transaction).lock(queue, 1, found.group, _BRIEFLY_MS).keys:
        raise Unavailable(
            "another session works on a message of the instance",
            where=f"instance {instance_id}, group {found.group!r} of queue {found.queue!r}",
            remedy="suspend the instance, and terminate it when that session has ended",
        )
    found = instance_of(transaction, instance_id)  # as it was left
    transaction.do("end_instance", of_instance=instance_id, of_queue=queue.queue_id, known_version=found.version)
    details = {
        "instance_id": instance_id, "subscription": found.subscription, "correlations": found.correlations,
        "version": found.version,
    }  # fmt: skip
    by = Operator(actor, reason)
    log(transaction, by, "terminate", queue=found.queue, group=found.group, details=details)
    if found.status is InstanceStatus.SUSPENDED:
        act(transaction, asked)
    return found


def _of_group(transaction: Transaction, action: Action, instance_id: int, actor: str, reason: str) -> InstanceView:
    found = instance_of(transaction, instance_id)
    asked = ActionRequest(action, found.queue, found.group, actor, reason)
    act(transaction, asked)
    return instance_of(transaction, instance_id)
