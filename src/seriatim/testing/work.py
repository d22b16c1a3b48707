"""`work_off`: have a handler work on a queue until nothing can be handed out, in a test."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from seriatim.box.box import MessageBox
from seriatim.operations.faults import faults
from seriatim.runtime.workers.handlers import GivenHandler
from seriatim.runtime.workers.worker import Worker

__all__ = ["work_off"]


def work_off(
    box: MessageBox,
    queue: str,
    handler: GivenHandler | str | Mapping[str, GivenHandler | str] | None = None,
    *,
    fails: bool = False,
    workers: int = 1,
    **options: Any,
) -> int:
    """Let a worker work on a queue until nothing can be handed out.

    Messages that wait for a retry or a delay, for a number that is missing, or for an operator, aren't waited for: move the
    clock, or publish, and call it again.

    Args:
        box: the message box.
        queue: the queue's name.
        handler: see `Worker`.
        fails: whether the handler may fail; the faults are in ``seriatim.operations.faults``.
        workers: the number of threads.
        options: see `Worker`.

    Returns:
        the number of messages that the handler got.

    Raises:
        AssertionError: the handler failed, and `fails` isn't set; with its traceback.
        UsageError, DeploymentError, Unavailable: as from `Worker` and its `run`.
    """
    known = max((fault.fault_id for fault in faults(box, queue, limit=1)), default=0)
    count = Worker(box, queue, handler, workers=workers, **options).run(until_idle=True)
    if not fails and (newest := faults(box, queue, limit=1)) and newest[0].fault_id > known:
        fault = newest[0]
        raise AssertionError(
            f"the handler failed at message {fault.message_id}: {fault.error_class}: {fault.error}\n{fault.traceback or ''}"
        )
    return count
