"""The receiver process: takes deliveries for ever, and writes what it was given into a log, in the same transaction.

The log is a table of the test's own, so that a turn's rows are there exactly if the turn was committed.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import psycopg
from psycopg.sql import SQL, Composed, Identifier

import seriatim as sq
from tests.faults.crew import ends_without_server, tells_when_unavailable
from tests.faults.history import Handled

WAIT_S = 1.0

_MAKE = SQL(
    """CREATE TABLE {log} (
        log_id bigint GENERATED ALWAYS AS IDENTITY,
        receiver text NOT NULL,
        queue text NOT NULL,
        "group" text,
        sequence bigint,
        ordinal bigint,
        message_id text NOT NULL,
        began bigint NOT NULL,
        ended bigint NOT NULL,
        body text NOT NULL
    )"""
)
# In the order of the delivery: what is inserted is sorted before its identities are given.
_WRITE = SQL(
    """INSERT INTO {log} (receiver, queue, "group", sequence, ordinal, message_id, began, ended, body)
    SELECT %(receiver)s, %(queue)s, %(group)s, sequence, ordinal, message_id, %(began)s, %(ended)s, body
    FROM unnest(%(sequences)s::bigint[], %(ordinals)s::bigint[], %(message_ids)s::text[], %(bodies)s::text[])
    WITH ORDINALITY AS handled (sequence, ordinal, message_id, body, place) ORDER BY place"""
)
_READ = SQL("""SELECT log_id, receiver, "group", sequence, ordinal, message_id, began, ended, body FROM {log}""")
_WRITTEN = SQL("SELECT count(*) FROM {log}")
_BEGUN = SQL("SELECT coalesce(pg_sequence_last_value(pg_get_serial_sequence({name}, 'log_id')), 0)")


class Log:
    """The handlers' own log of a box.

    Args:
        schema: of the box, by which the log is named; it lies outside of it.
    """

    def __init__(self, schema: str) -> None:
        self._name = f"{schema}_handled"

    def make(self, connection: psycopg.Connection) -> None:
        """Make it, empty."""
        connection.execute(self._on(_MAKE))

    def write(self, connection: psycopg.Connection, receiver: str, delivery: Any) -> None:
        """Write a turn down in its transaction, and complete it: it is iterated to its end."""
        began = time.monotonic_ns()
        rows = [(one.sequence, one.ordinal, one.message_id, one.body.decode()) for one in delivery]
        sequences, ordinals, message_ids, bodies = (list(column) for column in zip(*rows, strict=True))
        columns = {"sequences": sequences, "ordinals": ordinals, "message_ids": message_ids, "bodies": bodies}
        turn = {"receiver": receiver, "queue": delivery.queue, "group": delivery.group, "began": began}
        connection.execute(self._on(_WRITE), {**columns, **turn, "ended": time.monotonic_ns()})

    def read(self, connection: psycopg.Connection) -> list[Handled]:
        """All that is committed."""
        return [Handled(*row) for row in connection.execute(self._on(_READ))]

    def begun(self, connection: psycopg.Connection) -> int:
        """How many rows have been written, those too that were rolled back; costs nothing."""
        found = connection.execute(_BEGUN.format(name=self._name)).fetchone()
        assert found is not None
        return int(found[0])

    def written(self, connection: psycopg.Connection) -> int:
        """How many rows are committed."""
        found = connection.execute(self._on(_WRITTEN)).fetchone()
        assert found is not None
        return int(found[0])

    def _on(self, statement: SQL) -> Composed:
        return statement.format(log=Identifier("public", self._name))


def words(name: str, dsn: str, schema: str, queue: str, limit: int) -> list[str]:
    """The words of the process."""
    return [sys.executable, "-m", __name__, name, dsn, schema, queue, str(limit)]


@ends_without_server
def main(name: str, dsn: str, schema: str, queue: str, limit: int) -> None:
    """Receive until killed."""
    log = Log(schema)
    with sq.MessageBox.open(dsn, schema=schema, connections=2) as box:
        while True:
            with tells_when_unavailable(), box.session() as tx:
                delivery = tx.receive(queue, limit=limit, wait=WAIT_S)
                if delivery is not None:
                    log.write(tx.connection, name, delivery)


if __name__ == "__main__":
    name, dsn, schema, queue, limit = sys.argv[1:]
    main(name, dsn, schema, queue, int(limit))
