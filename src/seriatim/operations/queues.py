"""Queues: count messages, turn queues on and off, allow or stop readers, release queues from a pipeline that is gone."""

from __future__ import annotations

from seriatim.box.box import MessageBox
from seriatim.box.definitions.activations import Activated, activations_of
from seriatim.box.definitions.change import Change
from seriatim.box.definitions.switches import set_activated, set_enabled
from seriatim.box.operators.operator_log import Operator
from seriatim.box.pipelines import queue_release
from seriatim.box.pipelines.queue_release import Released
from seriatim.box.views.queue_counts import QueueCounts, counts_of

__all__ = [
    "Activated",
    "QueueCounts",
    "Released",
    "activate",
    "activations",
    "deactivate",
    "queues",
    "release",
    "turn_off",
    "turn_on",
]


def queues(box: MessageBox) -> list[QueueCounts]:
    """The message counts of each queue, by name."""
    with box.access.transaction() as transaction:
        return counts_of(transaction)


def turn_on(box: MessageBox, *queues: str) -> list[Change]:
    """Turn queues on: they hand messages out. Raises `UsageError` for an unknown name."""
    with box.access.transaction() as transaction:
        return set_enabled(transaction, queues, enabled=True)


def turn_off(box: MessageBox, *queues: str) -> list[Change]:
    """Turn queues off: they accept messages, but hand none out. Raises `UsageError` for an unknown name."""
    with box.access.transaction() as transaction:
        return set_enabled(transaction, queues, enabled=False)


def activate(box: MessageBox, *queues: str) -> list[Change]:
    """Let ``seriatim serve`` start readers of queues. Raises `UsageError` for a queue without an activation."""
    with box.access.transaction() as transaction:
        return set_activated(transaction, queues, activated=True)


def deactivate(box: MessageBox, *queues: str) -> list[Change]:
    """Start no more readers; running readers end after their turn. Raises `UsageError` for a queue without an activation."""
    with box.access.transaction() as transaction:
        return set_activated(transaction, queues, activated=False)


def activations(box: MessageBox) -> list[Activated]:
    """The activations of queues, by queue name; only queues from which the box's role may receive."""
    with box.access.transaction() as transaction:
        return activations_of(transaction)


def release(box: MessageBox, queue: str, *, actor: str = "application", reason: str = "on request") -> Released:
    """Release a queue from a pipeline that is gone; messages that the pipeline had in hand are queued again.

    Args:
        box: the box.
        queue: the queue's name.
        actor: the operator's name, for the operator log.
        reason: the reason, for the operator log.

    Raises:
        UsageError: there is no such queue, or an actor or reason is missing or too long.
        ActionRefused: no pipeline has the queue, or the pipeline is reading it now.
    """
    by = Operator(actor, reason)
    with box.access.transaction() as transaction:
        found = box.access.known.current(transaction).queue(queue)
        return queue_release.release(transaction, found, by)
