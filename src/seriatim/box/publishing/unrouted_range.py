"""Remember where to search for messages published through SQL that wait to be routed.

Routed rows stay in the index until vacuum, as in `queue_heads.py`; but here no row may be missed, because no later
message is judged before. So the place is a set of transactions: a later row belongs to a transaction that hadn't ended
when the place was found. A connection remembers the place only while it lives, because a server that crashed or was
replaced may use transaction numbers again.
"""

from __future__ import annotations

import time
from typing import NamedTuple

from seriatim.box.connection.access import Transaction
from seriatim.box.connection.queue_heads import SHORTEST_S, pause_s
from seriatim.box.connection.round_trip import OwnConnection


class SettledTransactions(NamedTuple):
    """The transactions to search: messages of all others are routed."""

    settled: str
    #: And these earlier transactions, as the text of an array.
    unsettled: str


EVERYWHERE = SettledTransactions("0", "{}")


def where_unrouted(transaction: Transaction) -> dict[str, str]:
    """The parameters for the search for messages that wait to be routed."""
    if not isinstance(transaction.connection, OwnConnection) or transaction.connection.is_pooled:
        return EVERYWHERE._asdict()
    now = time.monotonic()
    if transaction.connection.settled is None:
        transaction.connection.settled = EVERYWHERE, now + SHORTEST_S
    elif now >= transaction.connection.settled[1]:
        settled, unsettled, took_us = transaction.one("settled")
        transaction.connection.settled = SettledTransactions(settled, unsettled), time.monotonic() + pause_s(took_us)
    return transaction.connection.settled[0]._asdict()
