"""Dialogs: list their sides, and end sides that no application will end any more."""

from __future__ import annotations

from seriatim.box.box import MessageBox
from seriatim.box.connection.access import Transaction
from seriatim.box.views.dialogs import DialogFilter, DialogView, clean_up, dialogs_of
from seriatim.operations.listing import listed

__all__ = ["DialogView", "clean_up_dialogs", "dialogs"]


@listed(DialogFilter)
def dialogs(transaction: Transaction, chosen: DialogFilter) -> list[DialogView]:
    """List the sides of dialogs, oldest first."""
    return dialogs_of(transaction, chosen)


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
