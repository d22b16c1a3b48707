"""Remember from where to search for messages published through SQL that wait to be routed.

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

__all__ = ["EVERYWHERE", "SettledTransactions", "where_unrouted"]


class SettledTransactions(NamedTuple):
    """Where to look: what was settled before is routed.

    Args:
        settled: in all transactions from this one on.
        unsettled: and in these before it, as the text of an array.
    """

    settled: str
    unsettled: str


EVERYWHERE = SettledTransactions("0", "{}")


def where_unrouted(transaction: Transaction) -> dict[str, str]:
    """The parameters that say where to look for what waits to be routed.

    Args:
        transaction: its connection is asked at most once a second, and not by who looks once; one that isn't ours, or is pooled, remembers nothing.
    """
    if not isinstance(transaction.connection, OwnConnection) or transaction.connection.is_pooled:
        return EVERYWHERE._asdict()
    now = time.monotonic()
    if transaction.connection.settled is None:
        transaction.connection.settled = EVERYWHERE, now + SHORTEST_S
    elif now >= transaction.connection.settled[1]:
        settled, unsettled, took_us = transaction.one("settled")
        transaction.connection.settled = SettledTransactions(settled, unsettled), time.monotonic() + pause_s(took_us)
    return transaction.connection.settled[0]._asdict()
