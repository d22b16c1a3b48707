"""The trace of a message, for operators: each step with its time, as far as the box keeps it."""

from __future__ import annotations

from seriatim.box.box import MessageBox
from seriatim.box.connection.dsn import place_of
from seriatim.box.postgres.translate import translated
from seriatim.box.views import trace as steps
from seriatim.box.views.trace import Step, StepKind
from seriatim.errors import UsageError, shown

__all__ = ["Step", "StepKind", "trace_group", "trace_message"]

_MOST = 10_000


def trace_message(box: MessageBox, message_id: str, *, id_space: str | None = None) -> list[Step]:
    """The steps of a message: received, routed, held, released, each failed attempt, what operators did, where it left.

    What nobody keeps is said as a step of the kind ``unknown``.

    Raises:
        UsageError: the box knows nothing of it; or it knows several messages of the id, and `id_space` isn't named.
    """
    with box.session() as tx, translated(place_of(box.dsn, box.schema)):
        return steps.trace_message(tx.transaction, message_id, id_space)


def trace_group(box: MessageBox, queue: str, group: str, *, limit: int = 100) -> list[Step]:
    """The steps of the newest `limit` messages of a group that are known, and what operators did to it.

    Raises:
        UsageError: there is no such queue or group, or a limit that can't be.
    """
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= _MOST:
        raise UsageError(f"cannot trace {shown(limit)} messages", remedy=f"an integer from 1 to {_MOST:,}")
    with box.session() as tx, translated(place_of(box.dsn, box.schema)):
        return steps.trace_group(tx.transaction, queue, group, limit)
