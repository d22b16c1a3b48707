"""The connections to a box's database. No locks."""

from __future__ import annotations

from dataclasses import dataclass

from seriatim.box.connection.access import Transaction

#: A transaction in which nothing has been executed for so long was forgotten, or its process is frozen.
FORGOTTEN_S = 60.0


@dataclass(frozen=True, slots=True)
class ConnectionView:
    """A connection to the database of a box.

    Args:
        pid: the process of the server that serves it.
        name: its name (`application_name`); a connection of seriatim's names its machine and process.
        role: the role of the database with which it works; None: the caller may not see it.
        address: the address of its client; None: it is on the server's machine, or the caller may not see it.
        state: as PostgreSQL has it: ``active``, ``idle``, ``idle in transaction`` …; None: the caller may not see it.
        transaction_s: the seconds since its transaction began; None: it is in none.
        idle_s: the seconds for which it has executed nothing; None: it executes something.
        locks: how many groups, dialogs and the like it keeps locked.
    """

    pid: int
    name: str
    role: str | None
    address: str | None
    state: str | None
    transaction_s: float | None
    idle_s: float | None
    locks: int


def connections_of(transaction: Transaction, pid: int | None = None) -> list[ConnectionView]:
    """The connections to the database but this one; or one of them. First those whose transaction is oldest."""
    return transaction.rows("connections", ConnectionView, pid=pid)
