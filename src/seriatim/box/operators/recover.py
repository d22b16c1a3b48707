"""Retry faulted groups and messages automatically, as their queue says (`Recover`). Workers and `tick` do it."""

from __future__ import annotations

from typing import Any

from seriatim.box.connection.access import Access
from seriatim.box.operators.actions import ActionRequest, act
from seriatim.errors import Unavailable, UsageError
from seriatim.kernel.groups.verbs import Action
from seriatim.kernel.operators.recover import recovery_at

#: Who does it, in the operator log.
_ACTOR = "seriatim"


def recover(access: Access, *, ahead: bool) -> int:
    """Retry each faulted group that is due, in a transaction of its own; where messages are faulted by themselves, each message."""
    with access.transaction() as transaction:
        definitions = transaction.definitions()
        queues = {one.queue_id: one.declared for one in definitions.queues.values() if one.declared.recover.limit}
        if not queues:
            return 0
        parameters = {"queue_ids": list(queues), "actor": _ACTOR}
        found: list[tuple[Any, str | None]] = [(row, None) for row in transaction.rows("faulted_groups", **parameters)]
        if alone := [one.queue_id for one in definitions.queues.values() if one.numbers and one.queue_id in queues]:
            rows = transaction.rows("faulted_messages", queue_ids=alone, actor=_ACTOR)
            found += [(row, row.message_id) for row in rows]
    retried = 0
    for row, message_id in found:
        queue_id, group, failed_at, done, now = row.queue_id, row.group, row.failed_at, row.done, row.now
        queue = queues[queue_id]
        due = recovery_at(queue.recover, done, failed_at)
        if due is None or (due > now and not (ahead and failed_at > now)):
            continue
        reason = f"recovery {done + 1} of {queue.recover.limit}"
        try:
            with access.transaction() as transaction:
                asked = ActionRequest(Action.RETRY, queue.name, group, _ACTOR, reason, {"message": message_id})
                act(transaction, asked)
        except (UsageError, Unavailable):
            continue  # somebody else was faster, or works on it
        retried += 1
    return retried
