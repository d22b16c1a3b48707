"""The settings that a worker obeys: those of its queue, where there are some, and otherwise its own options.

Pure: it uses no clock and no box. Limits of all processes of a queue are divided among them by the number of their threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from seriatim.box.workers.heartbeat import WorkerOrders


@dataclass(frozen=True, slots=True)
class Obeyed:
    #: The number of threads that it would have, whatever other processes do.
    capacity: int
    #: The number of threads that it has: its share where groups in flight are limited, perhaps 0.
    threads: int
    #: The largest number of messages of a group in one transaction.
    run_length: int
    #: The largest number of messages a second; None: no limit.
    rate: float | None


def obeyed(own: Obeyed, answer: WorkerOrders, *, is_reader: bool) -> Obeyed:
    """Return the settings that a worker obeys after a heartbeat."""
    settings = answer.settings
    capacity = own.capacity if is_reader or settings.workers is None else settings.workers
    # This process's own report may be older than the present setting.
    capacities = [capacity if at == answer.place else other for at, other in enumerate(answer.capacities)] or [capacity]
    place = answer.place if answer.capacities else 0
    divided = shares(settings.in_flight, capacities)
    threads = divided[place]
    rate, is_shared = (own.rate, is_reader) if settings.rate is None else (settings.rate, True)
    if rate is not None and is_shared and threads:
        rate *= threads / sum(divided)
    return Obeyed(capacity, threads, own.run_length if settings.run_length is None else settings.run_length, rate)


def shares(most: int | None, capacities: Sequence[int]) -> list[int]:
    """Return how many threads each process has, of a limit for all of them together: as evenly as their capacities allow."""
    wanted = [max(capacity, 0) for capacity in capacities]
    if most is None or sum(wanted) <= most:
        return wanted
    fitting, left = [0] * len(wanted), most
    # The smallest first: their rest is divided among the others.
    for done, at in enumerate(sorted(range(len(wanted)), key=lambda at: (wanted[at], -at))):
        fitting[at] = min(wanted[at], left // (len(wanted) - done))
        left -= fitting[at]
    return fitting
