"""Retention: delete rows that need not be kept, and set the periods for which rows are kept."""

from __future__ import annotations

from collections.abc import Callable

from seriatim.box.box import MessageBox
from seriatim.box.operators import purge as cleaning
from seriatim.box.operators.purge import Purgeable, Purged

__all__ = ["Purgeable", "Purged", "keep_events", "keep_faults", "keep_message_ids", "purge", "purgeable"]


def purge(
    box: MessageBox,
    *,
    queue: str | None = None,
    older_than: float | str | None = None,
    forget_expired: bool = False,
    seconds: float | None = None,
    progress: Callable[[Purged], None] | None = None,
) -> Purged:
    """Clean up: delete rows without references, and rows that need not be kept longer. See `purge.run`.

    Args:
        box: the box.
        queue: delete only this queue's history and groups.
        older_than: delete history older than this many seconds (or ``"7d"``), in place of each queue's `keep_for`.
        forget_expired: forget groups that were idle for their queue's `expire_after`. A forgotten group that gets a message
            begins anew, in a higher incarnation.
        seconds: stop after this time; the next clean-up goes on. None: stop when all is done.
        progress: a function that is called after each batch with the counts so far.
    """
    return cleaning.run(
        box.access, queue=queue, older_than=older_than, forget_expired=forget_expired, seconds=seconds,
        progress=progress,
    )  # fmt: skip


def purgeable(box: MessageBox, *, queue: str | None = None, older_than: float | str | None = None) -> Purgeable:
    """Count the rows that `purge` would delete; changes nothing."""
    return cleaning.purgeable(box.access, queue=queue, older_than=older_than)


def keep_message_ids(box: MessageBox, period: float | str) -> None:
    """Recognise repeated messages for at least this many seconds (or ``"7d"``, the default)."""
    cleaning.keep(box.access, "message_ids", period)


def keep_events(box: MessageBox, period: float | str) -> None:
    """Keep events of groups for this many seconds (or ``"30d"``, the default)."""
    cleaning.keep(box.access, "events", period)


def keep_faults(box: MessageBox, period: float | str) -> None:
    """Keep faults of handlers for this many seconds (or ``"30d"``, the default).

    The newest fault of a message stays as long as the message does.
    """
    cleaning.keep(box.access, "faults", period)
