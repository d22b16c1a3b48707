"""Dialogs: list their sides, and end sides that no application will end any more."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from seriatim.box.box import MessageBox
from seriatim.box.views.dialogs import DialogView, clean_up, dialogs_of

__all__ = ["DialogView", "clean_up_dialogs", "dialogs"]


def dialogs(
    box: MessageBox,
    *,
    handle: UUID | str | None = None,
    service: str | None = None,
    state: str | None = None,
    older_than: float | str | None = None,
    waits: bool = False,
    after: tuple[datetime, UUID] | None = None,
    limit: int | None = None,
) -> list[DialogView]:
    """List the sides of dialogs, oldest first, without locks.

    Args:
        box: the box.
        handle: only the side with this handle.
        service: only sides of this service.
        state: only sides in this state: its two letters, or its name.
        older_than: only sides that began at least this many seconds (or ``"7d"``) ago.
        waits: only sides with messages that can't be delivered yet.
        after: only sides after the one that began at this time and has this handle, for paging: those of the last row of the previous call.
        limit: the largest number of rows.

    Raises:
        UsageError: there is no such state, or the limit is invalid.
    """
    with box.access.transaction() as transaction:
        return dialogs_of(
            transaction,
            handle=handle,
            service=service,
            state=state,
            older_than=older_than,
            waits=waits,
            after=after,
            limit=limit,
        )


def clean_up_dialogs(
    box: MessageBox, *, state: str = "ER", older_than: float | str = "7d", dry_run: bool = False
) -> list[DialogView]:
    """End the sides of dialogs that are in a state and old enough, without notifying the other sides.

    Args:
        box: the box.
        state: only sides in this state: its two letters, or its name.
        older_than: only sides that began at least this many seconds (or ``"7d"``) ago.
        dry_run: change nothing, only return the sides.

    Returns:
        the ended sides, as they were before.

    Raises:
        UsageError: there is no such state, or the period is invalid.
        Unavailable: some sides are left; call it again.
    """
    return clean_up(box.access, state=state, older_than=older_than, dry_run=dry_run)
