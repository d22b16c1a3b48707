"""What was set aside and is no dead letter, and what is unrouted: operators see it and delete it; that is written down."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta

from seriatim.box import set_aside as aside
from seriatim.box.actions import Operator
from seriatim.box.box import MessageBox
from seriatim.box.dsn import place_of
from seriatim.box.set_aside import SET_ASIDE, SetAside, SetAsideFilter
from seriatim.box.translate import translated
from seriatim.errors import UsageError
from seriatim.kernel.time import micros

__all__ = ["SET_ASIDE", "SetAside", "delete", "set_aside"]

_MOST = 100_000
#: So many are deleted in one transaction.
_BATCH = 1000


def set_aside(
    box: MessageBox,
    queue: str | None = None,
    *,
    group: str | None = None,
    status: str | Iterable[str] | None = None,
    message_type: str | None = None,
    older_than: float | str | None = None,
    message_ids: Sequence[str] | None = None,
    limit: int = 100,
) -> list[SetAside]:
    """What was set aside and is no dead letter, and what is unrouted, the oldest first.

    Args:
        box: the box.
        queue: only that of this queue.
        group: only that of groups with this key.
        status: only in this status, or one of these: ``late``, ``duplicate``, ``invalid``, ``rejected``, ``unrouted``.
        message_type: only of this type.
        older_than: only what was set aside, or found to be unrouted, more than so many seconds (or ``"5m"``) ago.
        message_ids: only these messages.
        limit: at most so many.

    Raises:
        UsageError: no such queue, not a status, a limit or a period that can't be.
    """
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= _MOST:
        raise UsageError(f"{limit!r} messages can't be listed", remedy=f"an integer from 1 to {_MOST:,}")
    statuses = [status] if isinstance(status, str) else list(status or SET_ASIDE)
    for one in statuses:
        if one not in SET_ASIDE:
            remedy = f"one of {', '.join(SET_ASIDE)}; what is dead is a dead letter: seriatim dead-letters"
            raise UsageError(f"messages that are {one!r} are not listed here", remedy=remedy)
    age = None if older_than is None else timedelta(microseconds=micros(older_than))
    queue_id = None if queue is None else box.definitions().queue(queue).queue_id
    chosen = SetAsideFilter(statuses, queue_id, group, message_type, age, message_ids)
    with box.session() as tx, translated(place_of(box.dsn, box.schema)):
        return aside.set_aside_of(tx.connection, box.schema, chosen, limit=limit)


def delete(box: MessageBox, found: Sequence[SetAside], *, actor: str, reason: str) -> int:
    """Delete for good what was found; a message goes with the next clean-up, if no other queue has it.

    What has been deleted or resubmitted meanwhile is left out. Gives how many were deleted.

    Raises:
        UsageError: nobody or nothing is named as actor or reason.
    """
    by, done = Operator(actor, reason), 0
    for begin in range(0, len(found), _BATCH):
        with box.session() as tx, translated(place_of(box.dsn, box.schema)):
            done += aside.delete(tx.connection, box.schema, found[begin : begin + _BATCH], by)
    return done
