"""Checks of a box's laws on the live box. Each function returns the violations, in words."""

from __future__ import annotations

from seriatim.box.box import MessageBox
from seriatim.box.views import invariants
from seriatim.box.views.invariants import Account

__all__ = [
    "Account",
    "account_within",
    "broken",
    "broken_within",
    "leases_run_out",
    "long_transactions",
    "never_numbered",
    "silent_triggers",
]


def broken(box: MessageBox) -> list[str]:
    """The violations of the box's laws, in words; empty if all is well. Reads the whole box, without locks."""
    return box.access.within(invariants.broken)


def broken_within(box: MessageBox, seconds: float) -> list[str] | None:
    """As `broken`; None if it would take longer: one of its statements took more than `seconds`."""
    return box.access.within(invariants.broken_within, seconds)


def account_within(box: MessageBox, seconds: float) -> Account | None:
    """The law of conservation in numbers, without locks; None if it would take longer than `seconds`. Reads all groups."""
    return box.access.within(invariants.account_within, seconds)


def long_transactions(box: MessageBox, seconds: float) -> list[str]:
    """The transactions in the box's database that are older than `seconds`, in words."""
    return box.access.within(invariants.long_transactions, seconds)


def leases_run_out(box: MessageBox, seconds: float) -> list[str]:
    """The workers' leases that ran out more than `seconds` ago and still exist, in words."""
    return box.access.within(invariants.leases_run_out, seconds)


def never_numbered(box: MessageBox) -> list[str]:
    """The committed messages that never got a ticket number, in words; `tick` numbers them."""
    return box.access.within(invariants.never_numbered)


def silent_triggers(box: MessageBox) -> list[str]:
    """The triggers of the box that were switched off, in words. Publishing and deleting are incomplete without them."""
    return box.access.within(invariants.silent_triggers)
