"""Messages with unique keys that a delivery has in hand: they aren't waiting any more, so others with their keys may be taken in."""

from __future__ import annotations

from seriatim.box.connection.access import Transaction
from seriatim.box.definitions.definition import Definitions
from seriatim.box.turns.delivery import Delivery
from seriatim.pipeline.types.box_properties import UNIQUE_KEY


def begin_unique(transaction: Transaction, definitions: Definitions, delivery: Delivery) -> None:
    """Tell publishers that a delivery has its messages in hand, if some have unique keys; until the transaction ends."""
    for message in delivery.messages:
        if UNIQUE_KEY in message.context:
            break
    else:  # as nearly always
        return
    mine = [place for place, message in enumerate(delivery.messages) if UNIQUE_KEY in message.context]
    transaction.do(
        "begin_unique",
        of_queue=definitions.queues[delivery.queue].queue_id,
        of_group=delivery.group,
        of_entries=[delivery.entry_ids[place] for place in mine],
    )
