"""What has to hold of a live box, looked at without locks: for `seriatim doctor`, and for tests."""

from __future__ import annotations

import psycopg
from psycopg.rows import tuple_row

from seriatim.box.purge import audit
from seriatim.box.statements import statement

__all__ = ["broken", "long_transactions"]


def broken(connection: psycopg.Connection, schema: str, most: int = 10) -> list[str]:
    """What breaks a law of the box, in words, at most so many of a kind; nothing, if all is well.

    Of every group: what it took in is decided or held. Of the spool: every reference has its message, and every
    message its ticket and a reference. All of it is read.
    """
    with connection.cursor(row_factory=tuple_row) as cursor:
        groups = cursor.execute(statement("audit_groups", schema), {"most": most}).fetchall()
    return [
        f"queue {queue!r}, group {group!r}: took in {taken:,}, but {decided:,} are decided and {held:,} held"
        for queue, group, taken, decided, held in groups
    ] + [f"{one.problem} ({one.arrival_id}, {one.position})" for one in audit(connection, schema, most)]


def long_transactions(connection: psycopg.Connection, schema: str, seconds: float, most: int = 5) -> list[str]:
    """Transactions that are older than so many seconds: they hold back vacuum, and the groups that they have."""
    with connection.cursor(row_factory=tuple_row) as cursor:
        rows = cursor.execute(statement("long_transactions", schema), {"seconds": seconds, "most": most}).fetchall()
    return [f"process {pid} ({name or 'without a name'}) since {age:,.0f} s" for pid, name, age in rows]
