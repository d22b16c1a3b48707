"""Two messages in a box under one number: the one that the journal has goes on, the other is set aside when the number is over.

The box keeps both, because it can't know which has the number. One has an entry in the queue, the others are kept beside it.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from seriatim.box.connection.access import Transaction
from seriatim.box.definitions.known import read_definitions
from seriatim.box.operators.operator_log import Operator
from seriatim.box.operators.requeue import requeue
from seriatim.box.turns.turns import Turns
from seriatim.kernel.values.outcome import REASONS, Disposition, Reason
from seriatim.pipeline.text.event_log import LOG
from seriatim.regions.box_role import role_of
from seriatim.regions.numbered import SessionNumber
from seriatim.regions.pair import Pair

#: The most conflicts that one pass settles: there are few, unless senders make mistakes.
_PORTION = 1_000
_PATIENCE_MS = 50
_BY = Operator("seriatim regions", "the journal has this message under its number")


def settle(pair: Pair, region: str) -> int:
    """Give the messages that the journal has their places, and set aside those whose numbers are over."""

    def read(transaction: Transaction) -> list[Any]:
        role_of(transaction, pair.name, region)
        return transaction.rows("region_besides", of_name=pair.name, at_most=_PORTION)

    besides = pair.in_box(region, read)
    if not besides:
        return 0
    settled = 0
    holders = pair.holders([SessionNumber(row.queue, row.session, row.number) for row in besides])
    for row, holder in zip(besides, holders, strict=True):
        if holder.is_over or holder.message_id == row.message_id:
            settled += pair.in_box(region, partial(_settle, row=row, is_over=holder.is_over))
    if settled:
        LOG.warning("region_conflicts_settled", region=region, messages=settled)
    return settled


def _settle(transaction: Transaction, row: Any, *, is_over: bool) -> bool:
    """Settle one message, if no worker has its session."""
    queue = read_definitions(transaction).queue(row.queue)
    if not Turns(transaction).lock(queue, 1, row.session, _PATIENCE_MS).keys:
        return False
    place = {"of_queue": row.queue_id, "of_session": row.session, "of_number": row.number, "of_message": row.message_id}
    if is_over:
        return bool(transaction.value("region_lose", **place, why=REASONS[Reason.CONFLICTS]))
    entry = transaction.value("region_exchange", **place)
    if entry:
        requeue(transaction, row.queue, row.session, [entry], [Disposition.DEAD.word], _BY, decides=False)
    return entry is not None
