"""Timers and lifetimes of dialogs: fire due timers, fail expired dialogs, delete closed dialogs after some time.

There is no background process: receivers of a service's queue and `tick` call this module.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from seriatim.box.connection.access import Access, Begin, Transaction
from seriatim.box.notice import EntriesSetAside
from seriatim.kernel.dialog import CLOSED_KEPT_S

#: The dialogs of one transaction.
_DIALOGS = 256


def fire_due(transaction: Transaction, apart: Begin, is_over: Callable[[], bool] = lambda: False) -> bool:
    """Fire due timers and end expired dialogs; return whether there were any."""
    return transaction.value("is_due") and fire(transaction.access, apart, is_over) > 0


def fire(access: Access, apart: Begin | None = None, is_over: Callable[[], bool] = lambda: False) -> int:
    """Fire timers and end expired dialogs; return the number of dialogs. Locked dialogs are skipped."""
    total, done = 0, _DIALOGS
    while done == _DIALOGS:
        with (apart or access.transaction)() as transaction:
            done, set_aside = transaction.one("fire_dialogs", at_most=_DIALOGS)
            if set_aside:
                access.known.current(transaction)  # this process may have read no definitions yet, or old ones
                transaction.notice(EntriesSetAside(set_aside))
        total += done
        if is_over():
            break
    return total


def forget_closed(transaction: Transaction, older_than_s: float = CLOSED_KEPT_S) -> int:
    """Delete the sides that were closed at least `older_than_s` seconds ago, and return their number."""
    return int(transaction.value("forget_closed", older_than=timedelta(seconds=older_than_s)))
