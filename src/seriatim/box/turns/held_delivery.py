"""The delivery in hand on a connection. Sessions on one connection share it, because locks belong to connections."""

from __future__ import annotations

from typing import Any, cast

import psycopg

from seriatim.box.connection.access import Transaction
from seriatim.box.connection.in_hand import DeliveryState
from seriatim.box.connection.round_trip import OwnConnection
from seriatim.box.definitions.definition import Definitions
from seriatim.box.turns.delivery import Delivery
from seriatim.box.turns.turns import Turns
from seriatim.errors import LeaseLost, UsageError
from seriatim.kernel.operators import actions
from seriatim.pipeline.types.box_properties import UNIQUE_KEY

#: The attribute of an application's connection for the last received delivery, by the schemas of the boxes.
_IN_HAND = "_seriatim_in_hand"


def held_on(connection: psycopg.Connection[Any], schema: str) -> Delivery | None:
    """The last delivery in the transaction of a connection, of any session."""
    if isinstance(connection, OwnConnection):  # it also knows the effect of a rollback
        return connection.in_hand  # type: ignore[return-value] # asked for each message
    return cast("Delivery | None", vars(connection).get(_IN_HAND, {}).get(schema))


def hold(connection: psycopg.Connection[Any], schema: str, delivery: Delivery | None) -> None:
    """Make a delivery known to all sessions on a connection."""
    if isinstance(connection, OwnConnection):
        connection.in_hand = delivery
    else:
        vars(connection).setdefault(_IN_HAND, {})[schema] = delivery


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


def close_group(transaction: Transaction, delivery: Delivery, token: int | None) -> None:
    """Close the group of a delivery that is in hand, after judging all that has arrived."""
    where = f"queue {delivery.queue!r}, group {delivery.group!r}"
    stands = delivery.stands  # asks PostgreSQL if the transaction is the application's
    if delivery.state.is_refused:
        raise UsageError(f"cannot close the group: {delivery.state.text}", where=where, remedy="receive again")
    queue = transaction.definitions().queue(delivery.queue)
    if delivery.group is None or not queue.has_groups:
        raise UsageError("cannot close a group: the queue has none", where=f"queue {delivery.queue!r}")
    turns, group = Turns(transaction), delivery.group
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
