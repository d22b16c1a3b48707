"""The messages that wait in a queue, read without locks."""

from __future__ import annotations

from seriatim.box.box import MessageBox
from seriatim.box.views import peek as views
from seriatim.box.views.peek import Peeked

__all__ = ["Peeked", "peek"]


def peek(box: MessageBox, queue: str, group: str | None = None, *, limit: int = 100) -> list[Peeked]:
    """Show the messages in a queue or a group, without locks: by group, in the order of leaving.

    Messages in a worker's open transaction are shown as they were before it.

    Raises:
        UsageError: there is no such queue, or the limit is invalid.
    """
    with box.access.transaction() as transaction:
        return views.peek(transaction, box.access.known.current(transaction), queue, group, limit)
