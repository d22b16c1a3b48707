"""What an operator does to an instance: suspended and resumed is its group, terminated it is gone."""

from __future__ import annotations

import psycopg

from seriatim.box.access import Access
from seriatim.box.actions import Asked, act
from seriatim.box.definitions import Known
from seriatim.box.failures import tell_acted
from seriatim.box.instance_views import InstanceStatus, InstanceView, instance_of
from seriatim.box.operator_log import Operator, log
from seriatim.box.statements import statement
from seriatim.box.turns import Turns
from seriatim.errors import Unavailable
from seriatim.kernel.states import Action

__all__ = ["resume", "suspend", "terminate"]

#: A handler may take as long as it likes, and nobody waits for it.
_BRIEFLY_MS = 250


def suspend(access: Access, connection: psycopg.Connection, instance_id: int, actor: str, reason: str) -> InstanceView:
    """Let its messages wait; a message that somebody works on is finished."""
    return _of_group(access, connection, Action.SUSPEND, instance_id, actor, reason)


def resume(access: Access, connection: psycopg.Connection, instance_id: int, actor: str, reason: str) -> InstanceView:
    """Let its messages go on."""
    return _of_group(access, connection, Action.RESUME, instance_id, actor, reason)


def terminate(
    access: Access, connection: psycopg.Connection, instance_id: int, actor: str, reason: str
) -> InstanceView:
    """End it: what waits with the key of its group follows the starting subscriptions again, what a value has led to it is dead.

    A suspended one is resumed for that.

    Returns:
        what it was.

    Raises:
        Unavailable: another session works on a message of the instance.
    """
    schema = access.schema
    found = instance_of(connection, schema, instance_id)
    asked = Asked(Action.RESUME, found.queue, found.group, actor, reason)
    queue = Known(schema).read(connection).queue(found.queue)
    if not Turns(connection, schema).lock(queue, 1, found.group, _BRIEFLY_MS).keys:
        raise Unavailable(
            "another session works on a message of the instance",
            where=f"instance {instance_id}, group {found.group!r} of queue {found.queue!r}",
            remedy="suspend the instance, and terminate it when that session has ended",
        )
    found = instance_of(connection, schema, instance_id)  # as it was left
    parameters = {"instance_id": instance_id, "queue_id": queue.queue_id, "version": found.version}
    connection.execute(statement("end_instance", schema), parameters)
    details = {
        "instance_id": instance_id, "subscription": found.subscription, "correlations": found.correlations,
        "version": found.version,
    }  # fmt: skip
    by = Operator(actor, reason)
    log(connection, schema, by, "terminate", queue=found.queue, group=found.group, details=details)
    if found.status is InstanceStatus.SUSPENDED:
        tell_acted(access, connection, act(connection, schema, asked))
    return found


def _of_group(
    access: Access, connection: psycopg.Connection, action: Action, instance_id: int, actor: str, reason: str
) -> InstanceView:
    found = instance_of(connection, access.schema, instance_id)
    asked = Asked(action, found.queue, found.group, actor, reason)
    tell_acted(access, connection, act(connection, access.schema, asked))
    return instance_of(connection, access.schema, instance_id)
