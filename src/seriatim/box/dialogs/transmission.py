"""The transmission queue: deliver dialog messages that waited for a missing service or a full queue.

There is no background process: receivers that find nothing, `define`, and `tick` call this module.
"""

from __future__ import annotations

from collections.abc import Sequence

from seriatim.box.connection.access import Begin, Transaction
from seriatim.box.definitions.change import Change, Kind
from seriatim.box.definitions.definition import BoxQueue


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
    """Deliver all waiting messages that can be delivered; return their number."""
    return int(transaction.value("transmit"))
