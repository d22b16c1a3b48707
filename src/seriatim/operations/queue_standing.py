"""How one queue stands: its state in words, what needs a hand in it, and the one command that helps first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from seriatim.box.box import MessageBox
from seriatim.box.views.queue_counts import QueueCounts, counts_of
from seriatim.operations.doctor import Finding, findings_of_queue
from seriatim.operations.workers import idle_queues
from seriatim.pipeline.text.counted import counted


@dataclass(frozen=True, slots=True)
class QueueStanding:
    """How a queue stands.

    Args:
        counts: its counts.
        words: its state in words.
        findings: what needs a hand or a look in it, what is wrong first.
        helps: the command that helps first; None: nothing needs a hand.
    """

    counts: QueueCounts
    words: str
    findings: tuple[Finding, ...]
    helps: str | None


def queue_standing(box: MessageBox, queue: str) -> QueueStanding:
    """How a queue stands. Raises `UsageError` for an unknown name, also if the role doesn't see the queue."""
    findings = tuple(findings_of_queue(box, queue))
    with box.access.transaction() as transaction:
        transaction.check_sight("see", queue=queue)
        (counts,) = counts_of(transaction, queue)
    idle = next((one.helps for one in idle_queues(box) if one.queue == queue), None)
    helps = next((one.remedy for one in findings if one.remedy), idle)
    return QueueStanding(counts, ", ".join(_words(counts, is_idle=idle is not None)), findings, helps)


def _words(counts: QueueCounts, *, is_idle: bool) -> Iterator[str]:
    yield "on" if counts.enabled else "off: it takes messages in, and hands none out"
    if counts.is_full:
        yield f"full, with {counted(counts.max_messages or 0, 'message')}"
    if counts.owner is not None:
        yield f"of the pipeline {counts.owner}"
    elif is_idle:
        yield "nobody works on it, and there are messages"
    else:
        at_work = counted(counts.processes, "process works", "processes work")
        yield f"{at_work} on it" if counts.processes else "nobody works on it"
    still, young = counts.stopped + counts.standing_holes, counts.waiting_groups - counts.standing_holes
    yield counted(still, "group stands still", "groups stand still") if still else "no group stands still"
    if young:
        yield counted(young, "group has just begun to wait", "groups have just begun to wait")
    if counts.faulted:
        yield f"{counted(counts.faulted, 'message')} failed for good"
    if counts.dead:
        yield counted(counts.dead, "dead letter")
