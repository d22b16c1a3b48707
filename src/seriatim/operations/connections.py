"""Connections to a box's database: list them, and end one whose transaction was forgotten."""

from __future__ import annotations

from seriatim.box.box import MessageBox
from seriatim.box.operators.operator_log import Operator, log
from seriatim.box.views.connections import ConnectionView, connections_of
from seriatim.errors import ActionRefused, NotFound

__all__ = ["ConnectionView", "connections", "end"]

#: How long the server is waited for until the connection is gone.
_PATIENCE_MS = 5_000


def connections(box: MessageBox) -> list[ConnectionView]:
    """List the connections to a box's database: whose, since when in a transaction, and how many groups it keeps locked.

    A transaction that was forgotten keeps its groups locked: end its connection with `seriatim connection end PID`.
    """
    return box.access.within(connections_of)


def end(box: MessageBox, pid: int, *, actor: str, reason: str) -> ConnectionView:
    """End a connection: its transaction is rolled back, and what it had received is handed out again.

    It is written to the operator log. Only the owner of the box may do that, who has to be a member of the connection's role, or of
    ``pg_signal_backend``.

    Args:
        box: the box.
        pid: the process of the server that serves the connection.
        actor: the operator's name, for the operator log.
        reason: the reason, for the operator log.

    Returns:
        the connection, as it was before.

    Raises:
        NotFound: no such connection leads to the database.
        ActionRefused: it hasn't ended within 5 seconds.
        EnvironmentProblem: the box's role may not end it.
        UsageError: an actor or reason is missing or too long.
    """
    by = Operator(actor, reason)
    with box.access.transaction() as transaction:
        found = next(iter(connections_of(transaction, pid)), None)
        if found is None:
            raise NotFound(
                f"no connection of an application has the process {pid}", remedy="seriatim connections lists them"
            )
        details = {"pid": pid, "name": found.name, "role": found.role, "transaction_s": found.transaction_s}
        log(transaction, by, "end_connection", queue=None, group=None, details=details)
        ended = transaction.maybe("end_connection", pid=pid, patience_ms=_PATIENCE_MS)
        if ended == (False,):
            raise ActionRefused(
                "it hasn't ended within 5 seconds", where=f"process {pid}", remedy="look again: seriatim connections"
            )
        return found
