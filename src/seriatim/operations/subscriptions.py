"""Start and stop subscriptions. A stopped subscription collects messages, but doesn't hand them out."""

from __future__ import annotations

from collections.abc import Iterable

from seriatim.box.box import MessageBox
from seriatim.box.definitions.change import Change
from seriatim.box.definitions.switches import set_state

__all__ = ["start", "stop", "unenlist"]


def start(box: MessageBox, *subscriptions: str) -> list[Change]:
    """Start subscriptions: their collected messages are handed out, in order. Raises `UsageError` for an unknown name."""
    return _set_state(box, subscriptions, "started")


def stop(box: MessageBox, *subscriptions: str) -> list[Change]:
    """Stop subscriptions: they collect messages, but hand none out. Messages in hand are not taken back.

    Raises:
        UsageError: there is no such subscription.
    """
    return _set_state(box, subscriptions, "stopped")


def unenlist(box: MessageBox, *subscriptions: str) -> list[Change]:
    """Let subscriptions collect no more messages. The box keeps back the messages that they have collected.

    Raises:
        UsageError: there is no such subscription.
    """
    return _set_state(box, subscriptions, "unenlisted")


def _set_state(box: MessageBox, subscriptions: Iterable[str], state: str) -> list[Change]:
    with box.access.transaction() as transaction:
        return set_state(transaction, subscriptions, state)
