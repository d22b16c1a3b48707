"""The messages that a finite frame leaves out of its result, reported in the log once all of the frame has been read.

A finite frame has no next batch, so a message that is held at its end is in no result. The workers count what they leave
out while they work, and Spark brings the counts to the driver with the end of each task: there is no further pass, and
the line is in the log before the action returns. See `docs/decisions/0077-what-a-finite-frame-leaves-out.md`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark import TaskContext
from pyspark.accumulators import Accumulator, AccumulatorParam
from pyspark.sql import SparkSession

from seriatim.kernel.groups.policy import BestEffort, Standard
from seriatim.kernel.operators.held_groups import missing_numbers
from seriatim.kernel.values.outcome import Disposition
from seriatim.pipeline.declared.queue import Queue
from seriatim.pipeline.text.event_log import LOG

#: The counts of a bucket: its messages by disposition, its groups that hold some, and the first of these groups: queue, key, its first
#: run of missing numbers.
Share = tuple[dict[int, int], int, "tuple[str, str, int | None, int | None] | None"]
#: The counts of one call of the operator: the partition and the task attempt, and the share of each bucket.
_Call = tuple[int, int, dict[int, Share]]


class _Calls(AccumulatorParam[list[_Call]]):
    """Collects the calls of a task on a worker, and hands them on at the driver."""

    def __init__(self, take: Callable[[_Call], None] | None = None) -> None:
        self._take = take

    def __reduce__(self) -> tuple[type[_Calls], tuple[()]]:
        return _Calls, ()  # as workers get it

    def zero(self, value: list[_Call]) -> list[_Call]:
        return []

    def addInPlace(self, value1: list[_Call], value2: list[_Call]) -> list[_Call]:  # noqa: N802 - Spark's interface
        if self._take is None:
            return [*value1, *value2]
        for call in value2:
            self._take(call)
        return value1


@dataclass(slots=True)
class LeftOut:
    """The messages that one frame leaves out, counted as its calls become known. Every partition is one call, whether messages are in it or
    not. A task that has several partitions (``coalesce``) makes several calls, and a partition may be read by several actions; each counts
    once.
    """

    queues: Sequence[Queue]
    several: bool
    partitions: int
    finish: bool
    _calls: set[tuple[int, int]] = field(default_factory=set)
    _of_attempts: Counter[int] = field(default_factory=Counter)
    _shares: dict[int, Share] = field(default_factory=dict)
    _told: bool = False

    def take(self, call: _Call) -> None:
        """Take in a call; with the last partition, report the messages that were left out."""
        if self._told:
            return
        partition, attempt, shares = call
        self._calls.add((partition, self._of_attempts[attempt]))
        self._of_attempts[attempt] += 1
        self._shares |= shares
        if len(self._calls) >= self.partitions:
            self._told = True
            if line := self.line():
                LOG.warning("rows_left_out", _line=line)
            for counted in (self._calls, self._of_attempts, self._shares):
                counted.clear()  # Spark never forgets an accumulator

    def line(self) -> str:
        """The messages that were left out, in a line; empty: none, or repetitions only."""
        counts: Counter[int] = Counter()
        groups = 0
        for by_disposition, holding, _ in self._shares.values():
            counts.update(by_disposition)
            groups += holding
        # A void leaves nothing because it has nothing that could leave.
        given = (Disposition.RELEASED, Disposition.VOID)
        missing = {
            disposition: counts[disposition]
            for disposition in Disposition
            if disposition not in given and counts[disposition]
        }
        if not missing.keys() - {Disposition.DUPLICATE, Disposition.COPY}:
            return ""
        parts = [f"{count:,} {disposition.word}" for disposition, count in missing.items()]
        if Disposition.HELD in missing:
            parts[0] += f" in {groups:,} group{'' if groups == 1 else 's'}{self._example()}"
        total, whole = sum(missing.values()), counts.total()
        told = (
            f"resequence: {total:,} of {whole:,} message{'' if whole == 1 else 's'} {'is' if total == 1 else 'are'} not "
            f'in the result: {", ".join(parts)}; output="all" gives every message, with the reason'
        )
        waits = Disposition.HELD in missing and not self.finish and any(map(_has_time, self.queues))
        return f"{told}; finish=True lets time run out for what is held" if waits else told

    def _example(self) -> str:
        examples = sorted(
            (example for _, _, example in self._shares.values() if example is not None), key=lambda example: example[:2]
        )
        if not examples:
            return ""
        queue, key, first, last = examples[0]
        place = f"{key!r} of queue {queue!r}" if self.several else repr(key)
        waits = missing_numbers(first, last)
        return f" (such as {place}{f', which waits for {waits}' if waits else ''})"


def counting(session: SparkSession, left_out: LeftOut) -> Callable[[dict[int, Share]], None] | None:
    """Return the function that the operator calls on a worker with the shares of a partition's buckets; None: Connect reports nothing."""
    context = getattr(session, "_sc", None)
    if context is None:
        return None
    calls: Accumulator[list[_Call]] = context.accumulator([], _Calls(left_out.take))
    return _Counting(calls)


@dataclass(frozen=True, slots=True)
class _Counting:
    calls: Accumulator[list[_Call]]

    def __call__(self, shares: dict[int, Share]) -> None:
        task: Any = TaskContext.get()
        self.calls.add([(task.partitionId(), task.taskAttemptId(), shares)])


def _has_time(queue: Queue) -> bool:
    """Whether time would release something that the queue holds."""
    match queue.policy:
        case Standard(hole_timeout=timeout, on_hole=on_hole):
            return timeout is not None and on_hole == "skip"
        case BestEffort():
            return True
    return False
