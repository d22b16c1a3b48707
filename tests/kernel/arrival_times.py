"""Arrivals as an engine gives them to the kernel, and what has to come of their times; no interface in memory gives them so."""

from __future__ import annotations

import numpy as np

from seriatim.kernel import resequence as kernel
from seriatim.kernel.groups.arrivals import NOT_SAID, Arrivals
from seriatim.kernel.groups.policy import Standard
from seriatim.kernel.values.time import micros

SKIPPING = Standard(hole_timeout=6, on_hole="skip")


def arrivals(*rows: tuple[int, int, float]) -> Arrivals:
    """Group, sequence and time (seconds) of each, sorted by group."""
    group, sequence, time = (np.array(column) for column in zip(*rows, strict=True))
    return Arrivals(
        group.astype(np.int64), sequence.astype(np.int64), np.arange(len(rows)),
        np.array([micros(float(one)) for one in time], np.int64), np.full(len(rows), NOT_SAID, np.int64),
        np.ones(len(rows), np.int64), np.zeros(len(rows), np.int64),
    )  # fmt: skip


def check_falling_times() -> None:
    """Within a group an earlier time counts as the latest one before it."""
    taken = kernel.offer(SKIPPING, kernel.new_state(SKIPPING, 2), arrivals((0, 1, 9), (0, 3, 4), (1, 1, 2), (1, 3, 4)))
    assert taken.state.groups.since.tolist() == [micros(9), micros(4)]
    assert taken.state.groups.clock.tolist() == [micros(9), micros(4)]


def check_settled() -> None:
    """A hole opens no earlier than the message behind it arrived: an engine that lets a long run go in parts settles at the due time of the timer that freed the first part."""
    taken = kernel.offer(SKIPPING, kernel.new_state(SKIPPING, 2), arrivals((0, 2, 0), (0, 5, 9), (1, 2, 0), (1, 5, 1)))
    passed = taken.state.with_groups(next=np.array([2, 2]))
    after, decided, _ = kernel.settle(SKIPPING, passed, np.array([micros(6), micros(6)]))
    assert decided.sequence.tolist() == [2, 2]
    assert after.groups.since.tolist() == [micros(9), micros(6)]
