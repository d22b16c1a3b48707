"""Queues: count messages, turn queues on and off, set how fast they are worked on, release queues from a pipeline that is gone."""

from __future__ import annotations

from collections.abc import Sequence
from types import EllipsisType

from seriatim.box.box import MessageBox
from seriatim.box.definitions.activations import Activated, activations_of
from seriatim.box.definitions.change import Change
from seriatim.box.definitions.queue_settings import SETTINGS, QueueSettings, settings_of
from seriatim.box.definitions.switches import set_activated, set_enabled
from seriatim.box.operators import queues as actions
from seriatim.box.operators.operator_log import Operator, log
from seriatim.box.operators.queues import Released
from seriatim.box.views.not_done import NotDone
from seriatim.box.views.queue_counts import QueueCounts, counts_of, released_of
from seriatim.errors import EnvironmentProblem

__all__ = [
    "Activated",
    "NotDone",
    "QueueCounts",
    "QueueSettings",
    "Released",
    "activate",
    "activations",
    "deactivate",
    "is_seen",
    "not_done",
    "queues",
    "release",
    "released",
    "set_queue",
    "settings",
    "turn_off",
    "turn_on",
]


def queues(box: MessageBox) -> list[QueueCounts]:
    """Count the messages in each queue of a message box, the groups that stand still, and the messages set aside.

    A message in a worker's open transaction counts as it did before the transaction. A stopped group is suspended or
    faulted, a waiting group waits for a missing number: `seriatim groups` lists both. Of a gate, the places are counted that are open
    because a message of theirs is still on its way.
    """
    return box.access.within(counts_of)


def is_seen(box: MessageBox, queue: str) -> bool:
    """Whether the box's role may look at a queue."""
    box.definitions()  # which says so if the box is gone
    try:
        with box.access.transaction() as transaction:
            transaction.check_sight("see", queue=queue)
    except EnvironmentProblem:
        return False
    return True


def released(box: MessageBox) -> dict[str, int]:
    """How many messages the groups of each queue have released until now, by the queue's name; queues without groups are missing."""
    return box.access.within(released_of)


def not_done(box: MessageBox, *queues: str) -> list[NotDone]:
    """Count the messages that aren't done, by what keeps them. Raises `UsageError` for an unknown name."""
    with box.access.transaction() as transaction:
        definitions = transaction.definitions()
        for queue in queues:
            definitions.queue(queue)
        return transaction.rows("not_done_counts", NotDone, queues=list(queues))


def turn_on(box: MessageBox, *queues: str, actor: str | None = None, reason: str | None = None) -> list[Change]:
    """Turn queues on: they hand messages out. With an actor it is written to the operator log.

    Raises:
        UsageError: a name is unknown, or there is an actor and no reason.
    """
    return _turn(box, queues, enabled=True, by=None if actor is None else Operator(actor, reason or ""))


def turn_off(box: MessageBox, *queues: str, actor: str | None = None, reason: str | None = None) -> list[Change]:
    """Turn queues off: they accept messages, but hand none out. The arguments and errors are the same as for `turn_on`."""
    return _turn(box, queues, enabled=False, by=None if actor is None else Operator(actor, reason or ""))


def _turn(box: MessageBox, queues: Sequence[str], *, enabled: bool, by: Operator | None) -> list[Change]:
    with box.access.transaction() as transaction:
        changes = set_enabled(transaction, queues, enabled=enabled)
        for one in changes:
            if by is not None:
                log(transaction, by, "turn_on" if enabled else "turn_off", queue=one.name, group=None, details={})
        return changes


def activate(box: MessageBox, *queues: str) -> list[Change]:
    """Let ``seriatim serve`` start readers of queues. Raises `UsageError` for a queue without an activation."""
    return box.access.within(set_activated, queues, activated=True)


def deactivate(box: MessageBox, *queues: str) -> list[Change]:
    """Start no more readers; running readers end after their turn. Raises `UsageError` for a queue without an activation."""
    return box.access.within(set_activated, queues, activated=False)


def activations(box: MessageBox) -> list[Activated]:
    """The activations of queues, by queue name; only queues from which the box's role may receive."""
    return box.access.within(activations_of)


def settings(box: MessageBox, queue: str) -> QueueSettings:
    """The settings of a queue, which its processes obey while they run. Raises `UsageError` for an unknown name."""
    with box.access.transaction() as transaction:
        transaction.definitions().queue(queue)
        return settings_of(transaction, queue)


def set_queue(
    box: MessageBox,
    queue: str,
    *,
    workers: int | EllipsisType | None = ...,
    in_flight: int | EllipsisType | None = ...,
    rate: float | EllipsisType | None = ...,
    run_length: int | EllipsisType | None = ...,
    actor: str = "application",
    reason: str = "on request",
) -> QueueSettings:
    """Set how a queue is worked on; processes at work obey within seconds. A setting counts before an option of theirs.

    Args:
        box: the box.
        queue: the queue's name.
        workers: the number of threads in each process of ``seriatim work``; the largest number of readers of
            ``seriatim serve``. None: unset; not given: unchanged.
        in_flight: the largest number of groups that all processes together work on at once; likewise.
        rate: the largest number of messages a second, of all processes together; likewise.
        run_length: the largest number of messages of a group in one transaction; likewise.
        actor: the operator's name, for the operator log.
        reason: the reason, for the operator log.

    Returns:
        all settings of the queue.

    Raises:
        UsageError: there is no such queue, nothing or an invalid value is given, or an actor or reason is missing or too long.
    """
    by = Operator(actor, reason)
    values = dict(zip(SETTINGS, (workers, in_flight, rate, run_length), strict=True))
    with box.access.transaction() as transaction:
        found = transaction.definitions().queue(queue)
        return actions.set_queue(transaction, found, {name: one for name, one in values.items() if one is not ...}, by)


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
        found = transaction.definitions().queue(queue)
        return actions.release(transaction, found, by)
