"""The transmission queue: what couldn't be delivered, because a service wasn't there or its queue was full, goes on its way.

Done by whoever comes first: who receives and finds nothing, who defines, and `tick`.
"""

from __future__ import annotations

import psycopg
from psycopg.rows import tuple_row

from seriatim.box.access import Access, Transaction
from seriatim.box.definitions import BoxQueue
from seriatim.box.statements import statement

__all__ = ["transmit", "transmit_to"]


def transmit_to(access: Access, connection: psycopg.Connection, queue: BoxQueue, apart: Transaction) -> int:
    """Deliver what waits for a queue's services, as far as it has room; how many messages.

    Args:
        access: the box.
        connection: of the session, whose transaction looks.
        queue: whose services.
        apart: gives the transaction in which it is done, so that it is numbered, and can be received.
    """
    if not queue.is_filled_later:
        return 0
    named = {"queue_id": queue.queue_id}
    with connection.cursor(row_factory=tuple_row) as cursor:
        (awaited,) = cursor.execute(statement("is_awaited", access.schema), named).fetchall()[0]
    if not awaited:
        return 0
    with apart() as own, own.cursor(row_factory=tuple_row) as cursor:
        (delivered,) = cursor.execute(statement("transmit_to", access.schema), named).fetchall()[0]
    return int(delivered)


def transmit(connection: psycopg.Connection, schema: str) -> int:
    """Deliver what can be; how many messages."""
    with connection.cursor(row_factory=tuple_row) as cursor:
        (delivered,) = cursor.execute(statement("transmit", schema)).fetchall()[0]
    return int(delivered)
