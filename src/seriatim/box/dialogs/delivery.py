"""Check dialog messages before a receiver gets them: their type, the first message of a dialog, and the number of rollbacks.

A rolled-back transaction leaves no data, whether an exception, kill -9 or a server crash ended it. But the number of the transaction stays
on each row that it had locked. So each turn locks the entry of its first message, and the next turn finds that number. It counts the
rollback in a separate transaction, because its own may be rolled back, too. After too many the conversation group is suspended.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from uuid import UUID

from seriatim.box.connection.access import Transaction
from seriatim.box.definitions.definition import BoxQueue, Definitions
from seriatim.box.notice import EntriesSetAside, MessageFailed
from seriatim.box.turns.delivery import Delivery, Mark
from seriatim.box.turns.separate_transaction import SeparateTransaction
from seriatim.kernel.dialog import END_DIALOG, ERROR
from seriatim.pipeline.text.event_log import LOG
from seriatim.pipeline.types.failure_message import Failed
from seriatim.pipeline.types.message import Received


def accept(transaction: Transaction, delivery: Delivery, definitions: Definitions, apart: SeparateTransaction) -> bool:
    for message in delivery.messages:
        if message.dialog is not None and (violation := _violation(message, definitions)) is not None:
            delivery.put_back()
            parameters = {
                "handles": [message.dialog.handle],
                "message_ids": [message.message_id],
                "sequences": [message.dialog.sequence],
                "whys": [why_failed(message.dialog.sequence, message.type, violation)],
            }
            set_aside = transaction.value("fail_dialogs", **parameters)
            transaction.notice(EntriesSetAside(set_aside))
            return False
    begun = []
    if delivery.mark is None:  # else it has been seen to
        begun = [
            message.dialog.handle
            for message in delivery.messages
            if message.dialog is not None and message.dialog.sequence == 0 and not message.dialog.is_initiator
        ]
    queue = definitions.queues.get(delivery.queue)
    if queue is not None and queue.counts_rollbacks and delivery.group is not None:
        return take_in_hand(transaction, queue, delivery, begun, apart)
    if begun:
        transaction.do("converse", handles=begun)
    return True


def tell_unended(transaction: Transaction, delivery: Delivery, has_ended: Callable[[UUID], bool]) -> None:
    """Log, once for each service, that a receiver completes the end of a dialog and leaves its own side open."""
    for message in delivery.messages:
        dialog = message.dialog
        if (
            dialog is not None and message.type in (END_DIALOG, ERROR) and not has_ended(dialog.handle)
            and transaction.access.told.is_first(("unended dialog", dialog.service))
        ):  # fmt: skip
            LOG.warning(
                "dialog_unended",
                dialog=str(dialog.handle),
                queue=delivery.queue,
                service=dialog.service,
                _type=message.type,
            )


def _violation(message: Received, definitions: Definitions) -> str | None:
    kind = definitions.types.get(message.type)
    return None if kind is None or not kind.checks_bodies else kind.violation(message.body)


def why_failed(sequence: int | None, kind: str, violation: str) -> str:
    return f"the message {sequence} isn't a {kind!r}: {violation}"


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
