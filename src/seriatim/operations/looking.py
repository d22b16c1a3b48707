"""Open a box for people who look at it: statements end in time, and where it is wanted nothing can be changed."""

from __future__ import annotations

from datetime import UTC, datetime

from seriatim.box import notices
from seriatim.box.box import MessageBox
from seriatim.box.connection.connections import DEFAULT_SCHEMA, Connections, Limits


def open_to_look(
    dsn: str | None = None, *, schema: str = DEFAULT_SCHEMA, statement_s: float = 5.0, reads_only: bool = False
) -> MessageBox:
    """Open a box that exists.

    Args:
        dsn: the PostgreSQL, as for `MessageBox.open`.
        schema: the schema of the box.
        statement_s: seconds after which PostgreSQL ends a statement, which is `Unavailable` then; a transaction waits as long for a
            connection.
        reads_only: whether PostgreSQL refuses every change.

    Raises:
        UsageError, EnvironmentProblem, SchemaMismatch: as for `MessageBox.open`.
    """
    limits = Limits(reads_only, max(1, round(statement_s * 1000)), wait_s=statement_s)
    return MessageBox(Connections.open(notices.publish, dsn, schema, 10, create=False, limits=limits))


def clock_ahead_s(box: MessageBox) -> float:
    """By how many seconds the database's clock is ahead of this machine's; negative: it is behind."""
    with box.access.transaction() as transaction:
        moment: datetime = transaction.value("moment")
        return (moment - datetime.now(UTC)).total_seconds()
