"""A queue for workers, with messages in it."""

from __future__ import annotations

from typing import Any

from psycopg.rows import namedtuple_row

import seriatim as sq
from seriatim.operations import queues

ORDER = sq.MessageType("order", properties={"customer": "string", "version": "long"})


def define(box: Any, name: str = "shop", **options: Any) -> None:
    """A queue of orders by customer, and a table that handlers write into."""
    given = {"policy": sq.Standard(), "group": "customer", "sequence": "version"} | options
    box.define(ORDER, sq.Queue(name, **given), sq.Subscription(name, where="type = 'order'", to=name))
    rows(
        box,
        "CREATE TABLE IF NOT EXISTS {schema}_seen (n bigint GENERATED ALWAYS AS IDENTITY, customer text, version bigint)",
    )


def publish(box: Any, *numbers: int, customer: str = "c1") -> None:
    """Orders with these versions."""
    with box.session() as tx:
        tx.publish([sq.Message(type="order", context={"customer": customer, "version": one}) for one in numbers])


def rows(box: Any, query: str, *arguments: Any) -> list[Any]:
    """What a statement gives."""
    with box.session() as tx, tx.connection.cursor(row_factory=namedtuple_row) as cursor:
        cursor.execute(query.replace("{schema}", box.schema), arguments or None)
        return cursor.fetchall() if cursor.description is not None else []


def see(box: Any, message: Any, tx: Any) -> None:
    """Write a message down, in the transaction of the turn."""
    tx.connection.execute(
        f"INSERT INTO {box.schema}_seen (customer, version) VALUES (%s, %s)",
        [message.context["customer"], message.context["version"]],
    )


def seen(box: Any) -> list[tuple[str, int]]:
    """What was written down and committed, in that order."""
    return [(row.customer, row.version) for row in rows(box, "SELECT customer, version FROM {schema}_seen ORDER BY n")]


def left(box: Any, queue: str = "shop") -> int:
    """How many messages are in the queue."""
    (found,) = [one for one in queues.queues(box) if one.queue == queue]
    return int(found.arrived + found.held + found.queued)
