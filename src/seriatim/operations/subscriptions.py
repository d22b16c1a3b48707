"""Subscriptions: list, start and stop them. A stopped subscription collects messages, but doesn't hand them out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from seriatim.box.box import MessageBox
from seriatim.box.connection.access import Transaction
from seriatim.box.definitions.change import Change
from seriatim.box.definitions.definition import BoxSubscription
from seriatim.box.definitions.switches import set_state
from seriatim.box.operators.operator_log import Operator, log
from seriatim.box.views import listing
from seriatim.box.views.listing import Listing
from seriatim.operations.listing import listed

__all__ = ["start", "stop", "subscriptions", "unenlist"]


@dataclass(frozen=True, slots=True)
class SubscriptionFilter(Listing):
    """The list of subscriptions."""

    queue: str | None = listing.queue("subscriptions that lead to this queue")


@listed(SubscriptionFilter)
def subscriptions(transaction: Transaction, chosen: SubscriptionFilter) -> list[BoxSubscription]:
    """List the subscriptions of a message box, with their states."""
    found = sorted(transaction.definitions().subscriptions.items())
    return [one for _, one in found if chosen.queue in (None, one.declared.to)]


def start(box: MessageBox, *subscriptions: str, actor: str | None = None, reason: str | None = None) -> list[Change]:
    """Start subscriptions: their collected messages are handed out, in order. With an actor it is written to the operator log.

    Raises:
        UsageError: there is no such subscription, or there is an actor and no reason.
    """
    return _set_state(box, subscriptions, "started", actor, reason)


def stop(box: MessageBox, *subscriptions: str, actor: str | None = None, reason: str | None = None) -> list[Change]:
    """Stop subscriptions: they collect messages, but hand none out. Messages in hand are not taken back.

    The arguments and errors are the same as for `start`.
    """
    return _set_state(box, subscriptions, "stopped", actor, reason)


def unenlist(box: MessageBox, *subscriptions: str) -> list[Change]:
    """Let subscriptions collect no more messages. The box keeps back the messages that they have collected.

    Raises:
        UsageError: there is no such subscription.
    """
    return _set_state(box, subscriptions, "unenlisted")


def _set_state(
    box: MessageBox, subscriptions: Iterable[str], state: str, actor: str | None = None, reason: str | None = None
) -> list[Change]:
    by = None if actor is None else Operator(actor, reason or "")
    with box.access.transaction() as transaction:
        changes = set_state(transaction, subscriptions, state)
        for one in changes:
            details = {"subscription": one.name}
            if by is not None:
                log(transaction, by, f"subscription_{state}", queue=None, group=None, details=details)
        return changes
