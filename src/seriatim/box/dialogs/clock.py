"""Due work of dialogs: fire timers, fail expired dialogs, delete closed ones, and deliver what waits in the transmission queue for a
missing service or a full queue.

There is no background process: receivers of a service's queue, `define` and `tick` call this module.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta

from seriatim.box.connection.access import Access, Begin, Transaction
from seriatim.box.definitions.change import Change, Kind
from seriatim.box.definitions.definition import BoxQueue
from seriatim.box.notice import EntriesSetAside
from seriatim.kernel.dialog import CLOSED_KEPT_S
from seriatim.pipeline.text.event_log import LOG

#: The dialogs of one transaction.
_DIALOGS = 256


def fire_due(transaction: Transaction, apart: Begin, is_over: Callable[[], bool] = lambda: False) -> bool:
    """Fire due timers and end expired dialogs; return whether there were any."""
    return transaction.value("is_due") and fire(transaction.access, apart, is_over) > 0


def fire(access: Access, apart: Begin | None = None, is_over: Callable[[], bool] = lambda: False) -> int:
    """Fire timers and end expired dialogs; return the number of dialogs. Locked dialogs are skipped, and those that fail."""
    total, done = 0, _DIALOGS
    while done == _DIALOGS:
        with (apart or access.transaction)() as transaction:
            done, set_aside, failed = transaction.one("fire_dialogs", at_most=_DIALOGS)
            if set_aside:
                transaction.definitions()  # this process may have read no definitions yet, or old ones
                transaction.notice(EntriesSetAside(set_aside))
        for handle, error in failed.items():
            if access.told.is_first(("failing dialog", handle, error)):
                LOG.error("dialog_not_fired", dialog=handle, error=error)
        total += done
        if is_over():
            break
    return total


def forget_closed(transaction: Transaction, older_than_s: float = CLOSED_KEPT_S) -> int:
    """Delete the sides that were closed at least `older_than_s` seconds ago, and return their number."""
    return int(transaction.value("forget_closed", older_than=timedelta(seconds=older_than_s)))


def transmit_to(transaction: Transaction, queue: BoxQueue, apart: Begin) -> int:
    """Deliver the messages that wait for a queue's services, as far as it has room; return their number."""
    if not queue.is_filled_later:
        return 0
    if not transaction.value("is_awaited", of_queue=queue.queue_id):
        return 0
    with apart() as own:
        return int(own.value("transmit_to", of_queue=queue.queue_id))


def transmit_defined(transaction: Transaction, changes: Sequence[Change]) -> None:
    """Deliver the messages that waited for services and queues that were defined now."""
    if any(change.kind in (Kind.SERVICE, Kind.QUEUE) and change.what != "dropped" for change in changes):
        transmit(transaction)


def transmit(transaction: Transaction) -> int:
    return int(transaction.value("transmit"))
