"""Poison messages: count rollbacks with the same message in hand, and suspend its conversation group after too many.

A rolled-back transaction leaves no data, whether an exception, kill -9 or a server crash ended it. But the number of
the transaction stays on each row that it had locked. So each turn locks the entry of its first message, and the next
turn finds that number. It counts the rollback in a separate transaction, because its own may be rolled back, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from seriatim.box.connection.access import Transaction
from seriatim.box.definitions.definition import BoxQueue
from seriatim.box.notice import MessageFailed
from seriatim.box.turns.delivery import Delivery, Mark
from seriatim.box.turns.separate_transaction import SeparateTransaction
from seriatim.pipeline.text.event_log import LOG
from seriatim.pipeline.types.failure_message import Failed


def take_in_hand(
    transaction: Transaction, queue: BoxQueue, delivery: Delivery, begun: Sequence[UUID], apart: SeparateTransaction
) -> bool:
    """Mark a delivery, unless it is marked already, and count the rollback that an earlier mark shows."""
    entry = {"of_queue": queue.queue_id, "of_group": delivery.group, "of_entry": delivery.entry_ids[0]}
    mark = delivery.mark
    if mark is None:
        mark = transaction.one("take_in_hand", Mark, **entry, begun=list(begun))
    if mark.rolled_back is None:
        return True
    counting = entry | {"rolled_back": mark.rolled_back, "own": mark.own, "at_most": queue.declared.retry.rollbacks}
    if apart.is_free:
        delivery.put_back()
    with apart() as other:
        suspends = other.value("note_rollback", **counting)
        if suspends:
            message, times = delivery.messages[0], queue.declared.retry.rollbacks or 0
            failed = Failed(
                delivery.queue, delivery.group, kind="poison", error_class="RolledBack",
                error=f"it was rolled back {times} times in a row", attempts=times, ordinal=message.ordinal,
            )  # fmt: skip
            other.notice(MessageFailed(message, failed))
    if suspends:
        LOG.error("poison", queue=delivery.queue, group=delivery.group, _rollbacks=queue.declared.retry.rollbacks)
        delivery.put_back()
    return delivery.is_open
