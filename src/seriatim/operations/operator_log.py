"""The operator log: who did what, when and why."""

from __future__ import annotations

from seriatim.box.connection.access import Transaction
from seriatim.box.views.operations_done import LogFilter, Logged, OperationRun, logged
from seriatim.operations.listing import listed

#: A page of runs reads at most this number of entries, and lists at most 50 of each run.
_AMONG, _LISTED = 5_000, 50

__all__ = ["LogFilter", "Logged", "OperationRun", "operator_log", "operator_log_runs"]


@listed(LogFilter)
def operator_log(transaction: Transaction, chosen: LogFilter) -> list[Logged]:
    """List entries of the operator log, newest first."""
    return logged(transaction, chosen)


@listed(LogFilter)
def operator_log_runs(transaction: Transaction, chosen: LogFilter) -> list[OperationRun]:
    """List the operator log in runs, newest first: what one actor did with one action and one reason to one after another is one row.

    For paging `before` is the last `first_id` of the previous call. A call reads 5,000 entries: a longer run goes on in the next one, and
    there may be fewer rows than `limit`.
    """
    return transaction.rows("operator_log_runs", OperationRun, **chosen.parameters(), among=_AMONG, listed=_LISTED)
