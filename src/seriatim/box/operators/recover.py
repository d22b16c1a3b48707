"""Retry faulted groups automatically, if their queue has `recoveries`. Workers and `tick` do it."""

from __future__ import annotations

from seriatim.box.connection.access import Access
from seriatim.box.operators.actions import ActionRequest, act
from seriatim.errors import EnvironmentProblem, Unavailable, UsageError
from seriatim.kernel.recover import recovery_at
from seriatim.kernel.states import Action

__all__ = ["recover"]

#: Who does it, in the operator log.
_ACTOR = "seriatim"


def recover(access: Access) -> int:
    """Retry each faulted group that is due, in queues with `recoveries`; each group in a separate transaction.

    Returns:
        the number of retried groups; 0 if the role isn't the owner of the box, who alone may do this.

    Raises:
        Unavailable: there is no connection; groups that were retried before stay so.
    """
    try:
        return _recovered(access)
    except EnvironmentProblem:
        return 0


def _recovered(access: Access) -> int:
    with access.transaction() as transaction:
        definitions = access.known.current(transaction)
        queues = {one.queue_id: one.declared for one in definitions.queues.values() if one.declared.recoveries}
        if not queues:
            return 0
        parameters = {"queue_ids": list(queues), "actor": _ACTOR}
        rows = transaction.rows("faulted_groups", **parameters)
    retried = 0
    for queue_id, group, failed_at, done, now in rows:
        queue = queues[queue_id]
        due = recovery_at(queue.recover(), done, failed_at)
        if due is None or due > now:
            continue
        reason = f"recovery {done + 1} of {queue.recoveries}"
        try:
            with access.transaction() as transaction:
                asked = ActionRequest(Action.RETRY, queue.name, group, _ACTOR, reason)
                act(transaction, asked)
        except (UsageError, Unavailable):
            continue  # somebody else was faster, or works on it
        retried += 1
    return retried
