"""A box at one glance: a row for each queue, and the box as a whole; made from its figures, in one statement."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from seriatim.box.box import MessageBox
from seriatim.operations.figures import Figure, figures


@dataclass(frozen=True, slots=True)
class QueueOverview:
    """A queue at one glance.

    Args:
        queue: its name.
        enabled: whether it hands messages out.
        waiting: messages that aren't judged yet, or are released and not handed out.
        held: messages that wait for other messages, or for an operator.
        in_hand: messages that a pipeline has in hand.
        faulted: groups, and messages that are stopped alone, that are faulted.
        suspended: groups that are suspended.
        missing: groups that wait for a missing number.
        standing_holes: how many of these stand still: from the time-out of the hole on, or without one after a minute.
        dead: dead letters.
        ready_s: how long the first message that can be handed out has waited, in seconds; None: there is none.
        hole_s: how long the oldest hole has been open, in seconds; None: there is none.
        processes: the processes at work, by their heartbeats.
        is_estimated: whether the counts are estimated from a sample.
    """

    queue: str
    enabled: bool
    waiting: int
    held: int
    in_hand: int
    faulted: int
    suspended: int
    missing: int
    standing_holes: int
    dead: int
    ready_s: float | None
    hole_s: float | None
    processes: int
    is_estimated: bool

    @property
    def needs_hand(self) -> bool:
        """Whether something in it waits for an operator."""
        return bool(self.faulted or self.suspended or self.standing_holes or not self.enabled)


@dataclass(frozen=True, slots=True)
class Overview:
    """A box at one glance.

    Args:
        at: when it was read, by this machine's clock.
        queues: its queues, by name.
        published: messages that were ever published; None: the role doesn't own the box, also for what follows.
        unrouted: messages that are in no queue.
        size_bytes: the bytes of its tables with their indexes.
        transaction_s: how long the oldest transaction in its database has been open, in seconds.
    """

    at: datetime
    queues: tuple[QueueOverview, ...]
    published: int | None = None
    unrouted: int | None = None
    size_bytes: int | None = None
    transaction_s: float | None = None


def overview(box: MessageBox, *, limit_s: float = 5.0) -> Overview:
    """A box at one glance; arguments and errors are those of `figures`."""
    return overview_of(figures(box, limit_s=limit_s))


def overview_of(found: Iterable[Figure]) -> Overview:
    """A box at one glance, by its figures."""
    values: dict[tuple[str, str | None, str | None], float] = {}
    names: set[str] = set()
    for one in found:
        values[one.figure, one.name, one.kind] = one.value
        if one.figure == "queue_enabled" and one.name is not None:
            names.add(one.name)
    is_owner = ("unrouted", None, None) in values
    return Overview(
        datetime.now(UTC),
        tuple(_queue(name, values) for name in sorted(names)),
        round(_sum(values, "published")) if is_owner else None,
        round(_sum(values, "unrouted")) if is_owner else None,
        round(_sum(values, "bytes")) if is_owner else None,
        _sum(values, "transaction_seconds") if is_owner else None,
    )


def _sum(values: dict[tuple[str, str | None, str | None], float], figure: str) -> float:
    return sum(value for (what, _, _), value in values.items() if what == figure)


def _queue(name: str, values: dict[tuple[str, str | None, str | None], float]) -> QueueOverview:
    def count(figure: str, kind: str | None = None) -> int:
        return round(values.get((figure, name, kind), 0))

    return QueueOverview(
        name,
        bool(count("queue_enabled")),
        count("messages", "arrived") + count("messages", "queued"),
        count("messages", "held"),
        count("messages", "in_hand"),
        count("groups", "faulted") + count("messages", "faulted"),
        count("groups", "suspended"),
        count("groups", "waiting") + count("groups", "timed_out"),
        count("standing_holes"),
        count("set_aside", "dead"),
        values.get(("ready_seconds", name, None)),
        values.get(("hole_seconds", name, None)),
        count("processes"),
        bool(count("is_estimated")),
    )
