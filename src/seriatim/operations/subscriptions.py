"""Start and stop subscriptions. A stopped subscription collects messages, but doesn't hand them out."""

from __future__ import annotations

from collections.abc import Iterable

from seriatim.box.box import MessageBox
from seriatim.box.definitions.change import Change
from seriatim.box.definitions.switches import set_state
from seriatim.box.operators.operator_log import Operator, log

__all__ = ["start", "stop", "unenlist"]


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
