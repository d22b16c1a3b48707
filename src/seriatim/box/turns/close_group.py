"""Close the group of a delivery, in its transaction: for a handler with the last message of a group."""

from __future__ import annotations

from seriatim.box.connection.access import Transaction
from seriatim.box.connection.in_hand import DeliveryState
from seriatim.box.turns.delivery import Delivery
from seriatim.box.turns.turns import Turns
from seriatim.errors import LeaseLost, UsageError
from seriatim.kernel.operators import actions


def close_group(transaction: Transaction, delivery: Delivery, token: int | None, now_us: int | None = None) -> None:
    """Close the group of a delivery that is in hand, after judging all that has arrived."""
    where = f"queue {delivery.queue!r}, group {delivery.group!r}"
    stands = delivery.stands  # asks PostgreSQL if the transaction is the application's
    if delivery.state.is_refused:
        raise UsageError(f"cannot close the group: {delivery.state.text}", where=where, remedy="receive again")
    queue = transaction.access.known.current(transaction).queue(delivery.queue)
    if delivery.group is None or not queue.has_groups:
        raise UsageError("cannot close a group: the queue has none", where=f"queue {delivery.queue!r}")
    turns, group = Turns(transaction, now_us), delivery.group
    locked = turns.lock_in_hand(queue, group, token)
    if not locked.keys and token is not None:
        raise LeaseLost(f"the lease {token} is lost", where=where, remedy="another worker gets the message")
    if not locked.keys:
        raise UsageError("cannot close the group: the transaction doesn't have it", where=where, remedy="receive again")
    closed = turns.act(
        queue,
        locked,
        lambda state: actions.close(queue.declared.policy_of(group), state, locked.now_us, group),
        all_arrived=True,
        all_held=True,
        in_hand=delivery.entry_ids if stands and delivery.state is DeliveryState.OPEN else (),
    )
    turns.record(queue, locked.keys, closed.caused)
    transaction.notice(*closed.judged.notices(queue, locked.keys))
