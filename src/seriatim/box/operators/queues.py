"""Take a queue back from a pipeline that is gone; change what is set for a queue, which its processes obey while they run."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from seriatim.box.connection.access import Transaction
from seriatim.box.definitions.definition import BoxQueue
from seriatim.box.definitions.queue_settings import SETTINGS, QueueSettings, check_setting
from seriatim.box.operators.operator_log import Operator, log
from seriatim.errors import ActionRefused, UsageError

_PATIENCE_S, _PAUSE_S = 2.0, 0.02


@dataclass(frozen=True, slots=True)
class Released:
    """A released `queue`, the `pipeline` that had it, and the number of `messages` that the pipeline had in hand."""

    queue: str
    pipeline: str
    messages: int


def release(transaction: Transaction, queue: BoxQueue, by: Operator) -> Released:
    """Release a queue from its pipeline, and log it: unfinished messages are queued in their places, its checkpoint is refused."""
    name = queue.declared.name
    where, named = f"queue {name!r}", {"queue_id": queue.queue_id}
    # The same lock that a run of the pipeline has as long as it lives: none begins until this is done. The server may
    # notice a moment later that a run has ended.
    deadline = time.monotonic() + _PATIENCE_S
    while not transaction.value("hold_reader_briefly", **named):
        if time.monotonic() > deadline:
            raise ActionRefused(
                "its pipeline runs and reads the queue now", where=where, remedy="stop the pipeline first"
            )
        time.sleep(_PAUSE_S)
    found = transaction.maybe("reader_of", **named)
    if found is None:
        raise ActionRefused("the queue belongs to no pipeline", where=where, remedy="workers may receive from it")
    pipeline, messages = found
    transaction.do("release_queue", of_queue=queue.queue_id)
    transaction.do("call_all_waiters", of_queues=[queue.queue_id])
    details = {"pipeline": pipeline, "messages": messages}
    log(transaction, by, "release", queue=name, group=None, details=details)
    return Released(name, pipeline, messages)


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
