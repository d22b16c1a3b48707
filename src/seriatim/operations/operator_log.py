"""The operator log: who did what, when and why."""

from __future__ import annotations

from typing import Unpack

from seriatim.box.box import MessageBox
from seriatim.box.connection.dsn import place_of
from seriatim.box.postgres.translate import translated
from seriatim.box.views.operations_done import Logged, OperationRun, logged, runs
from seriatim.operations.log_filter import LogChoice, checked_limit, log_filter

__all__ = ["LogChoice", "Logged", "OperationRun", "operator_log", "operator_log_runs"]


def operator_log(
    box: MessageBox,
    queue: str | None = None,
    *,
    before: int | None = None,
    limit: int = 100,
    **chosen: Unpack[LogChoice],
) -> list[Logged]:
    """List entries of the operator log, newest first.

    Args:
        box: the box.
        queue: only actions on this queue, or on its groups.
        before: only entries with lower numbers, for paging: the last `operation_id` of the previous call.
        limit: the largest number of rows.
        chosen: what narrows the list further: `group`, `actor`, `action`, `since`, `until`; see `LogChoice`.

    Raises:
        UsageError: the limit or the range of time is invalid.
    """
    most, by = checked_limit(limit), log_filter(queue, **chosen)
    with box.session() as tx, translated(place_of(box.dsn, box.schema)):
        return logged(tx.transaction, by, before=before, limit=most)


def operator_log_runs(
    box: MessageBox,
    queue: str | None = None,
    *,
    before: int | None = None,
    limit: int = 100,
    **chosen: Unpack[LogChoice],
) -> list[OperationRun]:
    """List the operator log in runs, newest first: what one actor did with one action and one reason to one after another is one row.

    Arguments and errors are the same as for `operator_log`; for paging `before` is the last `first_id` of the previous call. A call reads
    5,000 entries: a longer run goes on in the next one, and there may be fewer rows than `limit`.
    """
    most, by = checked_limit(limit), log_filter(queue, **chosen)
    with box.session() as tx, translated(place_of(box.dsn, box.schema)):
        return runs(tx.transaction, by, before=before, limit=most)
