"""The processes that work on queues, as they were at their last heartbeats. No locks."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from seriatim.box.connection.access import Transaction
from seriatim.box.views import listing
from seriatim.box.views.listing import Listing


@dataclass(frozen=True, slots=True)
class WorkView:
    """A message that a worker has in hand.

    Args:
        group: the key of its group; None: it has none.
        message_id: the id of the message that the handler has; None: none at that moment, or it is done since.
        attempt: which attempt it is, from 1.
        since: the time at which the turn began; under leases the message's.
    """

    group: str | None
    message_id: str | None
    attempt: int | None
    since: datetime


@dataclass(frozen=True, slots=True)
class WorkerView:
    """A process that works on a queue, as it was at its last heartbeat.

    Args:
        queue: the queue's name.
        host: the name of its machine.
        pid: its process id there.
        name: its name in faults.
        role: the database role with which it works.
        is_reader: whether it is a reader of an activation.
        mode: how it claims a group: `transactional` or `leased`.
        started_at: the time of its first heartbeat.
        seen_at: the time of its last heartbeat.
        silent_s: the seconds since then.
        is_silent: whether that is too long: it is frozen, dead, or its machine is cut off.
        workers: the number of threads that it obeys.
        threads: the number of threads that it has; fewer where groups in flight are limited.
        run_length: the run length that it obeys.
        rate: the messages a second that it obeys; None: no limit.
        busy: the number of turns under way.
        in_hand: what it has had in hand for longest, at most 50 of them.
    """

    queue: str
    host: str
    pid: int
    name: str
    role: str
    is_reader: bool
    mode: str
    started_at: datetime
    seen_at: datetime
    silent_s: float
    is_silent: bool
    workers: int
    threads: int
    run_length: int
    rate: float | None
    busy: int
    in_hand: tuple[WorkView, ...]


@dataclass(frozen=True, slots=True)
class JudgeView:
    """A process that judges for receivers in SQL.

    Args:
        name: its name.
        host: the name of its machine.
        pid: its process id there.
        role: the database role with which it judges.
        started_at: since when.
        seen_at: the time at which it told of itself last.
        is_there: whether that was lately, and its connection is open.
        listens: whether receivers can call it; behind a pooler it looks once a second.
    """

    name: str
    host: str
    pid: int
    role: str
    started_at: datetime
    seen_at: datetime
    is_there: bool
    listens: bool


@dataclass(frozen=True, slots=True)
class WorkerFilter(Listing):
    """The list of processes that work on queues."""

    queue: str | None = listing.queue("processes that work on this queue")


def workers_of(transaction: Transaction, chosen: WorkerFilter) -> list[WorkerView]:
    """The workers by queue, machine and process."""
    rows = transaction.rows("workers", dict, **chosen.parameters())
    return [WorkerView(**row | {"in_hand": tuple(map(_work, row["in_hand"]))}) for row in rows]


def _work(fields: dict[str, Any]) -> WorkView:
    return WorkView(**fields | {"since": datetime.fromisoformat(fields["since"])})
