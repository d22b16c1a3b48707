"""The session: what can be done with a box within one transaction."""

from __future__ import annotations

from collections.abc import Iterable

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from seriatim.box.publish import columns_of, distinct, portions
from seriatim.box.statements import statement
from seriatim.box.tickets import Tickets
from seriatim.box.translate import translated
from seriatim.errors import UsageError
from seriatim.kernel.sequence import LAST_NUMBER
from seriatim.pipeline.location import checked_location
from seriatim.pipeline.message import Message

__all__ = ["Session", "checked_connection"]


class Session:
    """One transaction with a box; made by `MessageBox.session` and for one thread at a time.

    Args:
        connection: a psycopg connection.
        schema: the schema of the box.
        place: host, database and schema, for errors.
    """

    def __init__(self, connection: psycopg.Connection, schema: str, place: str) -> None:
        self._connection: psycopg.Connection | None = connection
        self._schema = schema
        self._place = place

    @property
    def connection(self) -> psycopg.Connection:
        """The psycopg connection: what is written through it commits together with the messages.

        Raises:
            UsageError: the session has ended.
        """
        if self._connection is None:
            raise UsageError("the session has ended", remedy="begin another with box.session()")
        return self._connection

    def dispense(self, location: str, count: int = 1) -> Tickets:
        """Take the next numbers of a location, now.

        Nobody else gets numbers of this location until the transaction ends: so they have no gap, and are in the
        order of commits. A transaction that takes from several locations takes them in one order everywhere, by
        name; otherwise two may wait for each other, and one of them is refused.

        Args:
            location: where; one that isn't known yet begins at 1.
            count: how many, at least 1.

        Raises:
            UsageError: a name or count that can't be.
            Unavailable: the transaction has to be repeated.
        """
        checked_location(location)
        if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= LAST_NUMBER:
            raise UsageError(f"{count!r} tickets can't be dispensed", remedy=f"an integer from 1 to {LAST_NUMBER}")
        with translated(self._place), self.connection.cursor(row_factory=tuple_row) as cursor:
            cursor.execute(statement("dispense", self._schema), {"location": location, "count": count})
            epoch, number, last_number = cursor.fetchall()[0]
        return Tickets.run(location, epoch, number, count, last_number)

    def publish(self, messages: Message | Iterable[Message]) -> list[str]:
        """Take messages in. Each gets its ticket when the transaction commits.

        A message whose id was published before is left out, so that a publisher who doesn't know whether a commit
        reached the server may repeat it.

        Args:
            messages: in the order in which they get their tickets.

        Returns:
            their ids, as given, in that order.

        Raises:
            UsageError: something that isn't a message, a property that has no place in a context, a body that is
                too large. Nothing of the call is taken in.
            Unavailable: the transaction has to be repeated.
        """
        given = [messages] if isinstance(messages, Message) else list(messages)
        fresh = distinct(given)
        statements = [columns_of(portion) for portion in portions(fresh)]
        with translated(self._place), self.connection.cursor() as cursor:
            for columns in statements:
                cursor.execute(statement("publish", self._schema), columns)
        return [message.message_id for message in given]

    def _end(self) -> None:
        self._connection = None


def checked_connection(connection: object) -> psycopg.Connection:
    """The caller's connection, in whose transaction a session can take part.

    Raises:
        UsageError: it isn't an open psycopg connection with a transaction that the caller will end.
    """
    if not isinstance(connection, psycopg.Connection):
        raise UsageError(
            f"{type(connection).__module__}.{type(connection).__name__} is not a psycopg 3 connection",
            remedy="with SQLAlchemy (postgresql+psycopg://): connection.connection.driver_connection",
        )
    if connection.closed:
        raise UsageError("the connection is closed", remedy="give an open one")
    status = connection.info.transaction_status
    if status == TransactionStatus.INERROR:
        raise UsageError("the connection's transaction has failed", remedy="roll it back first")
    if connection.autocommit and status == TransactionStatus.IDLE:
        raise UsageError(
            "the connection commits each statement by itself",
            remedy="begin a transaction: with connection.transaction(): …",
        )
    return connection
