"""Change what is set for a queue, whose processes obey it while they run."""

from __future__ import annotations

from collections.abc import Mapping

from seriatim.box.connection.access import Transaction
from seriatim.box.definitions.definition import BoxQueue
from seriatim.box.definitions.queue_settings import SETTINGS, QueueSettings, check_setting
from seriatim.box.operators.operator_log import Operator, log
from seriatim.errors import UsageError


def set_queue(transaction: Transaction, queue: BoxQueue, given: Mapping[str, object], by: Operator) -> QueueSettings:
    for name, value in given.items():
        check_setting(name, value)
    if not given:
        raise UsageError("nothing is given to set", remedy=f"one of {', '.join(SETTINGS)}; None unsets it")
    values = dict.fromkeys(SETTINGS) | dict(given)
    found = transaction.one(
        "set_queue", QueueSettings, queue_id=queue.queue_id, changed=list(given), actor=by.actor, **values
    )
    log(transaction, by, "set", queue=queue.declared.name, group=None, details=dict(given))
    return found
