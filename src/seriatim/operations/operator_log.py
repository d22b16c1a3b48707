"""The operator log: who did what, when and why."""

from __future__ import annotations

from seriatim.box.box import MessageBox
from seriatim.box.connection.dsn import place_of
from seriatim.box.postgres.translate import translated
from seriatim.box.views.operations_done import Logged, logged
from seriatim.errors import UsageError, shown

__all__ = ["Logged", "operator_log"]

_MOST = 100_000


def operator_log(
    box: MessageBox,
    queue: str | None = None,
    *,
    group: str | None = None,
    before: int | None = None,
    limit: int = 100,
) -> list[Logged]:
    """List entries of the operator log, newest first.

    Args:
        box: the box.
        queue: only actions on this queue, or on its groups.
        group: only actions on groups with this key.
        before: only entries with lower numbers, for paging: the last `operation_id` of the previous call.
        limit: the largest number of rows.

    Raises:
        UsageError: the limit is invalid.
    """
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= _MOST:
        raise UsageError(f"cannot list {shown(limit)} actions", remedy=f"an integer from 1 to {_MOST:,}")
    with box.session() as tx, translated(place_of(box.dsn, box.schema)):
        return logged(tx.transaction, queue=queue, group=group, before=before, limit=limit)
