"""The heartbeat of a process: one statement reports its work on each of its queues, and returns their settings."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

from seriatim.box.connection.access import Transaction
from seriatim.box.definitions.queue_settings import SETTINGS, QueueSettings

#: The most turns in hand that a process reports: the longest ones.
_MOST_TOLD = 50
_LONGEST_NAME, _LONGEST_HOST = 1024, 256


@dataclass(frozen=True, slots=True)
class Process:
    process_id: UUID
    name: str
    host: str
    pid: int
    is_reader: bool = False


@dataclass(frozen=True, slots=True)
class Report:
    """A process's work on a queue."""

    queue: str
    mode: str
    #: The number of threads that it would have, whatever other processes do.
    capacity: int
    threads: int
    run_length: int
    #: The largest number of messages a second; None: no limit.
    rate: float | None
    #: For each turn under way its group, the entry of the message whose handler is at work, and its duration in seconds.
    in_hand: Sequence[tuple[str | None, int | None, float]] = ()


@dataclass(frozen=True, slots=True)
class WorkerOrders:
    """The settings that a process obeys on a queue."""

    settings: QueueSettings = field(default_factory=QueueSettings)
    #: The capacity of each process that works on the queue, in an order that is the same for all of them. Empty where they share no
    #: limit.
    capacities: tuple[int, ...] = ()
    place: int = 0


def beat(transaction: Transaction, process: Process, reports: Sequence[Report]) -> dict[str, WorkerOrders]:
    """Report a process's work on each of its queues, in one round trip."""
    rows = transaction.rows(
        "beat",
        of_process=process.process_id,
        its_name=process.name[:_LONGEST_NAME],
        its_host=process.host[:_LONGEST_HOST],
        its_pid=process.pid,
        reads=process.is_reader,
        of_queues=[report.queue for report in reports],
        modes=[str(report.mode) for report in reports],
        own_capacities=[report.capacity for report in reports],
        own_threads=[report.threads for report in reports],
        run_lengths=[report.run_length for report in reports],
        rates=[report.rate for report in reports],
        own_busy=[len(report.in_hand) for report in reports],
        hands=[_told(report) for report in reports],
    )
    return {
        row.queue: WorkerOrders(
            QueueSettings(**{name: getattr(row, name) for name in SETTINGS}),
            tuple(row.capacities or ()),
            row.place or 0,
        )
        for row in rows
    }


def forget(transaction: Transaction, process_id: UUID) -> None:
    transaction.do("forget_process", of_process=process_id)


def _told(report: Report) -> str:
    longest = sorted(report.in_hand, key=lambda item: -item[2])[:_MOST_TOLD]
    longest_told = [{"group": group, "entry": entry_id, "seconds": took} for group, entry_id, took in longest]
    return json.dumps(longest_told, ensure_ascii=False)
