"""The operator log: who did what, when and why."""

from __future__ import annotations

from seriatim.box.box import MessageBox
from seriatim.box.connection.dsn import place_of
from seriatim.box.postgres.translate import translated
from seriatim.box.views.filters import LogFilter
from seriatim.box.views.operations_done import Logged, OperationRun, logged, runs
from seriatim.errors import UsageError, shown
from seriatim.operations.period import When, time_range

__all__ = ["Logged", "OperationRun", "operator_log", "operator_log_runs"]

_MOST = 100_000


def operator_log(
    box: MessageBox,
    queue: str | None = None,
    *,
    group: str | None = None,
    actor: str | None = None,
    action: str | None = None,
    since: When | None = None,
    until: When | None = None,
    before: int | None = None,
    limit: int = 100,
) -> list[Logged]:
    """List entries of the operator log, newest first.

    Args:
        box: the box.
        queue: only actions on this queue, or on its groups.
        group: only actions on groups with this key.
        actor: only actions of this actor.
        action: only this action, such as ``"skip_message"``.
        since: only actions from this moment on: a datetime, ISO text (without a zone: local time), or how long ago it was, as
            seconds or ``"2h"``.
        until: only actions before this moment, likewise.
        before: only entries with lower numbers, for paging: the last `operation_id` of the previous call.
        limit: the largest number of rows.

    Raises:
        UsageError: the limit or the range of time is invalid.
    """
    _check_limit(limit)
    chosen = LogFilter(queue, group, actor, action, time_range(since, until))
    with box.session() as tx, translated(place_of(box.dsn, box.schema)):
        return logged(tx.transaction, chosen, before=before, limit=limit)


def operator_log_runs(
    box: MessageBox,
    queue: str | None = None,
    *,
    group: str | None = None,
    actor: str | None = None,
    action: str | None = None,
    since: When | None = None,
    until: When | None = None,
    before: int | None = None,
    limit: int = 100,
) -> list[OperationRun]:
    """List the operator log in runs, newest first: what one actor did with one action and one reason to one after another is one row.

    Arguments and errors are the same as for `operator_log`; for paging `before` is the last `first_id` of the previous call. A call reads
    5,000 entries: a longer run goes on in the next one, and there may be fewer rows than `limit`.
    """
    _check_limit(limit)
    chosen = LogFilter(queue, group, actor, action, time_range(since, until))
    with box.session() as tx, translated(place_of(box.dsn, box.schema)):
        return runs(tx.transaction, chosen, before=before, limit=limit)


def _check_limit(limit: int) -> None:
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= _MOST:
        raise UsageError(f"cannot list {shown(limit)} actions", remedy=f"an integer from 1 to {_MOST:,}")
