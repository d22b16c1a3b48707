"""The counts and times of this process while it works on queues: for metrics only.

It knows nothing of Prometheus. Each value belongs to a queue, and perhaps to a kind (of a fault, of a disposition); never to a group or a
message, so that there are few of them. All threads share `MEASURES`. A process of a supervisor reports them through shared memory;
snapshots of several processes are added.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Self


class Measure(StrEnum):
    """The measures; the distributions are those in `BOUNDS`."""

    RELEASED = "released"
    HANDLED = "handled"
    SET_ASIDE = "set_aside"
    CONFLICTS = "conflicts"
    FAULTS = "faults"
    LEASES_LOST = "leases_lost"
    REPLACED = "replaced"
    WAIT = "wait"
    HOLD = "hold"
    PROCESS = "process"
    TURN = "turn"
    BATCH = "batch"
    ROWS = "rows"
    PORT_MESSAGES = "port_messages"


_SECONDS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0)
#: The upper bounds of the buckets of each distribution: of times seconds, of turns messages.
BOUNDS: Mapping[Measure, tuple[float, ...]] = {
    Measure.WAIT: _SECONDS,
    Measure.HOLD: _SECONDS,
    Measure.PROCESS: _SECONDS,
    Measure.TURN: (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000),
    Measure.BATCH: _SECONDS,
}

#: A queue (of a pipeline: a destination), and a kind; either may be empty.
_Key = tuple[str, str, str]


@dataclass(slots=True)
class Distribution:
    """How often a value was within each bound and above all of them, and the sum of the values."""

    counts: list[int]
    total: float = 0.0

    @property
    def number(self) -> int:
        return sum(self.counts)


@dataclass(slots=True)
class Snapshot:
    counts: dict[_Key, int] = field(default_factory=dict)
    distributions: dict[_Key, Distribution] = field(default_factory=dict)
    #: When a queue was last looked at for work, on the machine's monotonic clock, seconds.
    looked: dict[str, float] = field(default_factory=dict)

    def add(self, other: Snapshot) -> None:
        for key, count in other.counts.items():
            self.counts[key] = self.counts.get(key, 0) + count
        for key, distribution in other.distributions.items():
            own = self.distributions.setdefault(key, Distribution([0] * len(distribution.counts)))
            own.counts = [here + there for here, there in zip(own.counts, distribution.counts, strict=True)]
            own.total += distribution.total
        for queue, moment in other.looked.items():
            self.looked[queue] = max(self.looked.get(queue, 0.0), moment)

    def as_object(self) -> dict[str, Any]:
        return {
            "counts": [[*key, count] for key, count in self.counts.items()],
            "distributions": [
                [*key, distribution.counts, distribution.total] for key, distribution in self.distributions.items()
            ],
            "looked": self.looked,
        }

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> Self:
        return cls(
            {(measure, queue, kind): count for measure, queue, kind, count in content["counts"]},
            {
                (measure, queue, kind): Distribution(counts, total)
                for measure, queue, kind, counts, total in content["distributions"]
            },
            dict(content["looked"]),
        )


class Measures:
    """The values of one process; its threads share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._now = Snapshot()

    def count(self, measure: Measure, queue: str, kind: str = "", by: int = 1) -> None:
        if by:
            key = (measure.value, queue, kind)
            with self._lock:
                self._now.counts[key] = self._now.counts.get(key, 0) + by

    def observe(self, measure: Measure, queue: str, values: Iterable[float], kind: str = "") -> None:
        """Add values, in seconds or messages; a value below 0, from different clocks, counts as 0."""
        bounds = BOUNDS[measure]
        measured = [max(value, 0.0) for value in values]
        if not measured:
            return
        places = [bisect_left(bounds, value) for value in measured]
        key = (measure.value, queue, kind)
        with self._lock:
            distribution = self._now.distributions.get(key)
            if distribution is None:
                distribution = self._now.distributions[key] = Distribution([0] * (len(bounds) + 1))
            for place in places:
                distribution.counts[place] += 1
            distribution.total += sum(measured)

    def looked(self, queue: str) -> None:
        self._now.looked[queue] = time.monotonic()

    def set_aside(self, queue: str, dispositions: Sequence[str]) -> None:
        for disposition in set(dispositions):
            self.count(Measure.SET_ASIDE, queue, disposition, dispositions.count(disposition))

    def snapshot(self) -> Snapshot:
        snapshot = Snapshot()
        with self._lock:
            snapshot.add(self._now)
        return snapshot


#: The measures of this process.
MEASURES = Measures()
