"""`work_off`: have a handler work on a queue until nothing can be handed out, in a test."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from psycopg import sql

from seriatim.box.box import MessageBox
from seriatim.operations.faults import faults
from seriatim.runtime.workers.handlers import GivenHandler
from seriatim.runtime.workers.scoreboard import Scoreboard, Slot
from seriatim.runtime.workers.worker import SPARE_THREADS, Worker

__all__ = ["work_off"]

_LOOK_S = 0.01
#: Who is in a transaction; and whether a lease is there.
_BUSY = """SELECT array(SELECT pid FROM pg_stat_activity WHERE datname = current_database()
    AND pid <> pg_backend_pid() AND xact_start IS NOT NULL), EXISTS (SELECT FROM {}.leases)"""


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
    known = _newest_fault(box, queue)
    count = _run_until_idle(box, queue, handler, workers, options)
    if not fails and (found := faults(box, queue, limit=1)) and found[0].fault_id > known:
        what = found[0]
        raise AssertionError(
            f"the handler failed at message {what.message_id}: {what.error_class}: {what.error}\n{what.traceback or ''}"
        )
    return count


def _newest_fault(box: MessageBox, queue: str) -> int:
    return max((one.fault_id for one in faults(box, queue, limit=1)), default=0)


def _run_until_idle(
    box: MessageBox,
    queue: str,
    handler: GivenHandler | str | Mapping[str, GivenHandler | str] | None,
    workers: int,
    options: Mapping[str, Any],
) -> int:
    others, _ = _busy(box)  # the test's own
    board = Scoreboard.make(workers + SPARE_THREADS)
    worker = Worker(box, queue, handler, workers=workers, slots=board.slots, **options)
    counts: list[int] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            counts.append(worker.run())
        except BaseException as error:  # noqa: BLE001 -- it is raised below
            failed.append(error)

    thread = threading.Thread(target=run, name="seriatim-works-off", daemon=True)
    thread.start()
    try:
        while thread.is_alive() and not _is_idle(box, queue, board.slots, others):
            time.sleep(_LOOK_S)
    finally:
        worker.stop()
        thread.join()
        board.close()
    if failed:
        raise failed[0]
    return counts[0]


def _busy(box: MessageBox) -> tuple[set[int], bool]:
    """The connections to the database that are in a transaction, and whether somebody has a lease."""
    with box.session() as tx:
        words = sql.SQL(_BUSY).format(sql.Identifier(box.schema))
        ((pids, has_lease),) = tx.connection.execute(words).fetchall()
    return set(pids), has_lease


def _is_idle(box: MessageBox, queue: str, slots: Sequence[Slot], others: set[int]) -> bool:
    """Whether nothing can be handed out, and nothing is in hand.

    A worker may have locked a group, and not begun its turn: then it is in a transaction, or has a lease. If it has ended
    since, a turn has begun.
    """
    before = [slot.turns for slot in slots]
    with box.session() as tx:
        delivery = tx.receive(queue)
        if delivery is not None:
            delivery.put_back()
            return False
    busy, has_lease = _busy(box)
    return not busy - others and not has_lease and before == [slot.turns for slot in slots]
