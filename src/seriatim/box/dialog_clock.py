"""What time does to dialogs: timers fire, lifetimes end, and what has long been closed is forgotten.

It is done by whoever comes first: who receives from a queue of a service, and `tick`.
"""

from __future__ import annotations

from datetime import timedelta

import psycopg
from psycopg.rows import tuple_row

from seriatim.box.access import Access, Transaction
from seriatim.box.failures import tell_gone
from seriatim.box.statements import statement
from seriatim.kernel.dialog import CLOSED_KEPT_S

__all__ = ["fire", "fire_due", "forget_closed"]

#: Dialogs of one transaction.
_DIALOGS = 256


def fire_due(access: Access, connection: psycopg.Connection, apart: Transaction) -> bool:
    """Do what is due, if anything is; whether anything was done.

    Args:
        access: the box.
        connection: of the session, whose transaction looks.
        apart: gives the transactions in which it is done, so that it is numbered, and can be received.
    """
    with connection.cursor(row_factory=tuple_row) as cursor:
        (due,) = cursor.execute(statement("is_due", access.schema)).fetchall()[0]
    return due and fire(access, apart) > 0


def fire(access: Access, apart: Transaction | None = None) -> int:
    """Fire timers, and end what has outlived its lifetime; of how many dialogs. What others have is passed over.

    Args:
        access: the box.
        apart: gives transactions; None: the box.
    """
    total, done = 0, _DIALOGS
    while done == _DIALOGS:
        with (apart or access.transaction)() as connection, connection.cursor(row_factory=tuple_row) as cursor:
            parameters = {"at_most": _DIALOGS}
            done, set_aside = cursor.execute(statement("fire_dialogs", access.schema), parameters).fetchall()[0]
            if set_aside:
                access.known.current(connection)  # whoever fires may have known nothing yet, or for long
                tell_gone(access, connection, set_aside)
        total += done
    return total


def forget_closed(connection: psycopg.Connection, schema: str, older_than_s: float = CLOSED_KEPT_S) -> int:
    """Forget the sides that have been closed for so many seconds; how many."""
    with connection.cursor(row_factory=tuple_row) as cursor:
        parameters = {"older_than": timedelta(seconds=older_than_s)}
        (gone,) = cursor.execute(statement("forget_closed", schema), parameters).fetchall()[0]
    return int(gone)
